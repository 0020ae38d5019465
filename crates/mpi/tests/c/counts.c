// A library that counts the tests which reach MPI, of one request and of many; a look for a message is one of many. Loaded after ours, before MPI's own.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>

_Atomic int tests_of_one, tests_of_many, tests;

int PMPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    static int (*of_mpi)(MPI_Request *, int *, MPI_Status *);
    if (!of_mpi) of_mpi = (int (*)(MPI_Request *, int *, MPI_Status *))dlsym(RTLD_NEXT, "PMPI_Test");
    tests_of_one++, tests++;
    return of_mpi(request, flag, status);
}

int PMPI_Testsome(int count, MPI_Request *requests, int *ended, int *indices, MPI_Status *statuses) {
    static int (*of_mpi)(int, MPI_Request *, int *, int *, MPI_Status *);
    if (!of_mpi) of_mpi = (int (*)(int, MPI_Request *, int *, int *, MPI_Status *))dlsym(RTLD_NEXT, "PMPI_Testsome");
    tests_of_many++, tests++;
    return of_mpi(count, requests, ended, indices, statuses);
}

int PMPI_Improbe(int rank, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status) {
    static int (*of_mpi)(int, int, MPI_Comm, int *, MPI_Message *, MPI_Status *);
    if (!of_mpi) of_mpi = (int (*)(int, int, MPI_Comm, int *, MPI_Message *, MPI_Status *))dlsym(RTLD_NEXT, "PMPI_Improbe");
    tests_of_many++, tests++;
    return of_mpi(rank, tag, comm, flag, message, status);
}

int PMPI_Iprobe(int rank, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
    static int (*of_mpi)(int, int, MPI_Comm, int *, MPI_Status *);
    if (!of_mpi) of_mpi = (int (*)(int, int, MPI_Comm, int *, MPI_Status *))dlsym(RTLD_NEXT, "PMPI_Iprobe");
    tests_of_many++, tests++;
    return of_mpi(rank, tag, comm, flag, status);
}

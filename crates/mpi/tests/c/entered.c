// A library that counts which calls of all ranks have reached MPI, which of those were begun that let others run, and
// how many threads were in calls that make communicators at once. Loaded after ours, before MPI's own.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>

_Atomic int entered, begun, sent, inside, most;

#define COUNTED(counter, name, parameters, arguments)                                       \
    int name parameters {                                                                   \
        static int(*of_mpi) parameters;                                                     \
        if (!of_mpi) of_mpi = (int(*) parameters)dlsym(RTLD_NEXT, #name);                   \
        counter++;                                                                          \
        return of_mpi arguments;                                                            \
    }

#define MAKING(name, parameters, arguments)                                                 \
    int name parameters {                                                                   \
        static int(*of_mpi) parameters;                                                     \
        if (!of_mpi) of_mpi = (int(*) parameters)dlsym(RTLD_NEXT, #name);                   \
        entered++;                                                                          \
        int now = ++inside, seen = most;                                                    \
        while (seen < now && !__atomic_compare_exchange_n(&most, &seen, now, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));         \
        int code = of_mpi arguments;                                                        \
        inside--;                                                                           \
        return code;                                                                        \
    }

MAKING(PMPI_Comm_create_group, (MPI_Comm a, MPI_Group b, int c, MPI_Comm *d), (a, b, c, d))
MAKING(PMPI_Comm_split, (MPI_Comm a, int b, int c, MPI_Comm *d), (a, b, c, d))
MAKING(PMPI_Comm_create, (MPI_Comm a, MPI_Group b, MPI_Comm *c), (a, b, c))
COUNTED(entered, PMPI_Comm_dup, (MPI_Comm a, MPI_Comm *b), (a, b))
COUNTED(entered, PMPI_Cart_create, (MPI_Comm a, int b, const int *c, const int *d, int e, MPI_Comm *f), (a, b, c, d, e, f))
COUNTED(entered, PMPI_Win_create, (void *a, MPI_Aint b, int c, MPI_Info d, MPI_Comm e, MPI_Win *f), (a, b, c, d, e, f))
COUNTED(entered, PMPI_Win_allocate, (MPI_Aint a, int b, MPI_Info c, MPI_Comm d, void *e, MPI_Win *f), (a, b, c, d, e, f))
COUNTED(entered, PMPI_Win_fence, (int a, MPI_Win b), (a, b))
COUNTED(entered, PMPI_Win_wait, (MPI_Win a), (a))
COUNTED(entered, PMPI_Win_free, (MPI_Win *a), (a))
COUNTED(entered, PMPI_File_open, (MPI_Comm a, const char *b, int c, MPI_Info d, MPI_File *e), (a, b, c, d, e))
COUNTED(begun, PMPI_Ibarrier, (MPI_Comm a, MPI_Request *b), (a, b))
COUNTED(begun, PMPI_Comm_idup, (MPI_Comm a, MPI_Comm *b, MPI_Request *c), (a, b, c))
COUNTED(begun, PMPI_Win_test, (MPI_Win a, int *b), (a, b))
COUNTED(sent, PMPI_Isend, (const void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f, MPI_Request *g), (a, b, c, d, e, f, g))

// What a program does wrong is told as natively. Two ranks.
// usage: wrong calls|late|answered|fatal|twice
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int rank, other, told;

static int class_of(int error) {
    int class;
    MPI_Error_class(error, &class);
    return class;
}

static void hears(MPI_Comm *comm, int *error, ...) {
    (void)comm;
    told = class_of(*error);
}

// Numbers below zero and no array, while a long request of the program's is outstanding.
static void calls(void) {
    static char sent[100000], received[100000];
    MPI_Request request;
    MPI_Status status, two[2];
    volatile int below = -1;
    int index, any, all;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Irecv(received, sizeof received, MPI_CHAR, other, 0, MPI_COMM_WORLD, &request);
    all = class_of(MPI_Waitall(below, &request, two));
    any = class_of(MPI_Waitany(below, &request, &index, &status));
    printf("rank %d: below zero %d %d\n", rank, all, any);
    all = class_of(MPI_Waitall(2, NULL, two));
    any = class_of(MPI_Waitany(2, NULL, &index, &status));
    printf("rank %d: no array %d %d, no request %d\n", rank, all, any, class_of(MPI_Wait(NULL, &status)));
    MPI_Send(sent, sizeof sent, MPI_CHAR, other, 0, MPI_COMM_WORLD);
    printf("rank %d: received %d\n", rank, class_of(MPI_Wait(&request, &status)));
}

// It asks the other rank, which answers late, though messages come. MPICH's calls end the rank when a handler uses them.
static void asks(MPI_Comm *comm, int *error, ...) {
    int question = 1, answer = 0;
    hears(comm, error);
    MPI_Sendrecv(&question, 1, MPI_INT, other, 1, &answer, 1, MPI_INT, other, 2, *comm, MPI_STATUS_IGNORE);
    printf("rank %d: answered %d\n", rank, answer);
}

static void answers(void) {
    int question, answer;
    MPI_Recv(&question, 1, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    usleep(200000);
    answer = question + 1;
    MPI_Send(&answer, 1, MPI_INT, other, 2, MPI_COMM_WORLD);
}

// A message that is too long comes late: who tests for all finds it.
static void late(void) {
    int two[2] = {1, 2}, one = 0, code = MPI_SUCCESS;
    if (rank == 0) {
        usleep(200000);
        MPI_Send(two, 2, MPI_INT, 1, 0, MPI_COMM_WORLD);
    } else {
        code = MPI_Recv(&one, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    printf("rank %d: too long %d, the handler was told %d\n", rank, class_of(code), told);
}

int main(int count, char **words) {
    const char *what = words[1];
    int provided;
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = 1 - rank;
    if (strcmp(what, "calls") == 0) calls();
    if (strcmp(what, "late") == 0 || strcmp(what, "answered") == 0) {
        MPI_Errhandler handler;
        MPI_Comm_create_errhandler(what[0] == 'l' ? hears : asks, &handler);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
        late();
        if (what[0] == 'a' && rank == 0) answers();
    }
    if (strcmp(what, "fatal") == 0) late();
    MPI_Finalize();
    if (strcmp(what, "twice") == 0) MPI_Finalize();
    return 0;
}

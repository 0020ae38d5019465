// What a program does wrong is told as natively. Two ranks.
// usage: wrong calls|handled|late|answered|fatal|twice|several|pending
#include <mpi.h>
#include <pthread.h>
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
#ifndef OPEN_MPI // Natively it reads there.
    all = class_of(MPI_Sendrecv_replace(NULL, 1, MPI_INT, other, 1, other, 1, MPI_COMM_WORLD, &status));
    printf("rank %d: no buffer %d\n", rank, all);
#endif
    MPI_Send(sent, sizeof sent, MPI_CHAR, other, 0, MPI_COMM_WORLD);
    printf("rank %d: received %d\n", rank, class_of(MPI_Wait(&request, &status)));
}

// Which of these call the handler, and with what.
static void handled(void) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status statuses[2];
    MPI_File file;
    volatile int below = -1;
    int some, indices[2], code, from;
    told = -1;
    code = class_of(MPI_Waitsome(below, &request, &some, indices, statuses));
    printf("rank %d: some below zero %d, the handler was told %d\n", rank, code, told);
    told = -1;
    code = class_of(MPI_Waitsome(1, &request, NULL, indices, statuses));
    printf("rank %d: no place for how many %d, the handler was told %d\n", rank, code, told);
    told = -1;
    code = class_of(MPI_Waitsome(1, &request, &some, indices, statuses));
    printf("rank %d: some of none %d, the handler was told %d\n", rank, code, told);
    told = -1;
    code = class_of(MPI_File_open(MPI_COMM_NULL, "none", MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    printf("rank %d: a file of nobody's %d, the handler was told %d\n", rank, code, told);
    told = -1;
    code = class_of(MPI_Neighbor_allgather(&rank, 1, MPI_INT, &from, 1, MPI_INT, MPI_COMM_WORLD));
    printf("rank %d: no neighbours %d, the handler was told %d\n", rank, code, told);
#ifdef MPICH
    // Open MPI's ends the rank by a signal.
    told = -1;
    code = class_of(MPI_Neighbor_allgather(&rank, 1, MPI_INT, &from, 1, MPI_INT, MPI_COMM_NULL));
    printf("rank %d: neighbours of nobody %d, the handler was told %d\n", rank, code, told);
#endif
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

// One of four threads gets a message that is too long; they wait together.
static void *receives(void *tag) {
    int one = 0, code = MPI_Recv(&one, 1, MPI_INT, 0, (int)(long)tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("rank 1: message %d, too long %d\n", (int)(long)tag, class_of(code));
    return NULL;
}

static void several(void) {
    int two[2] = {1, 2};
    pthread_t ids[4];
    if (rank == 0) {
        usleep(200000);
        for (int tag = 0; tag < 4; tag++) MPI_Send(two, 1 + (tag == 2), MPI_INT, 1, tag, MPI_COMM_WORLD);
    } else {
        for (long tag = 0; tag < 4; tag++) pthread_create(&ids[tag], NULL, receives, (void *)tag);
        for (int tag = 0; tag < 4; tag++) pthread_join(ids[tag], NULL);
        printf("rank 1: the handler was told %d\n", told);
    }
}

// Of three requests the second fails while the third has not ended. That one is waited for alone then.
static void pending(int late) {
    int two[2] = {1, 2}, got[3] = {0, 0, 0}, code;
    MPI_Request requests[3];
    MPI_Status statuses[3];
    if (rank == 0) {
        if (late) usleep(200000);
        MPI_Send(two, 1, MPI_INT, 1, 10, MPI_COMM_WORLD);
        MPI_Send(two, 2, MPI_INT, 1, 11, MPI_COMM_WORLD);
        // When the other has seen the error. MPICH's waits for all.
#ifdef MPICH
        usleep(100000);
        MPI_Send(two, 1, MPI_INT, 1, 12, MPI_COMM_WORLD);
#endif
        MPI_Recv(got, 1, MPI_INT, 1, 13, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#ifndef MPICH
        MPI_Send(two, 1, MPI_INT, 1, 12, MPI_COMM_WORLD);
#endif
        return;
    }
    if (!late) usleep(200000);
    told = 0;
    for (int i = 0; i < 3; i++) {
        MPI_Irecv(&got[i], 1, MPI_INT, 0, 10 + i, MPI_COMM_WORLD, &requests[i]);
        statuses[i].MPI_ERROR = MPI_ERR_OTHER;
    }
    code = MPI_Waitall(3, requests, statuses);
    // MPICH leaves one that is after the wrong one, natively, though it has ended.
    int left = requests[2] != MPI_REQUEST_NULL;
    printf("rank 1: late %d: %d, of each %d %d, right of the third %d, ended %d %d, the handler was told %d\n", late,
           class_of(code), class_of(statuses[0].MPI_ERROR), class_of(statuses[1].MPI_ERROR),
           class_of(statuses[2].MPI_ERROR) == (left ? MPI_ERR_PENDING : MPI_SUCCESS), requests[0] == MPI_REQUEST_NULL,
           requests[1] == MPI_REQUEST_NULL, told);
    MPI_Send(two, 1, MPI_INT, 0, 13, MPI_COMM_WORLD);
    code = MPI_Wait(&requests[2], &statuses[2]);
    printf("rank 1: late %d: then %d, got %d %d\n", late, class_of(code), got[0], got[2]);
}

int main(int count, char **words) {
    const char *what = words[1];
    int provided;
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = 1 - rank;
    if (strcmp(what, "calls") == 0) calls();
    if (strcmp(what, "late") == 0 || strcmp(what, "answered") == 0 || strcmp(what, "several") == 0 ||
        strcmp(what, "handled") == 0) {
        MPI_Errhandler handler;
        MPI_Comm_create_errhandler(what[0] == 'a' ? asks : hears, &handler);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    }
    if (strcmp(what, "pending") == 0) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (strcmp(what, "late") == 0 || strcmp(what, "answered") == 0) late();
    if (strcmp(what, "handled") == 0) handled();
    if (what[0] == 'a' && rank == 0) answers();
    if (strcmp(what, "several") == 0) several();
    if (strcmp(what, "pending") == 0) pending(0), pending(1);
#ifdef MPICH
    // Open MPI's `MPI_Waitall` does not end natively here, where threads have waited before.
    if (strcmp(what, "several") == 0) pending(0), pending(1);
#endif
    if (strcmp(what, "fatal") == 0) late();
    MPI_Finalize();
    if (strcmp(what, "twice") == 0) MPI_Finalize();
    return 0;
}

// Who tests stays awake while a long message may be on its way, or a window is there, and sleeps again however these end. One rank, with counts.c loaded.
// Prints for each whether it was awake, and at the end whether it sleeps.
#define _GNU_SOURCE
#pragma GCC diagnostic ignored "-Wstringop-overflow" // MPICH's MPI_STATUSES_IGNORE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { LONG = 100000, KINDS = 12 };
static atomic_int *asked;
static char from[KINDS][LONG], to[KINDS][LONG];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void *waits(void *length) {
    MPI_Recv(to[0], (int)(long)length, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}

// A rank that sleeps asks some forty times a second.
static int is_awake(void) {
    int before = *asked;
    double began = now();
    while (*asked < before + 5000 && now() < began + 60) usleep(1000);
    return *asked >= before + 5000;
}

// In one tenth of a second of many.
static int sleeps(void) {
    for (int i = 0; i < 100; i++) {
        int before = *asked;
        double began = now();
        usleep(100000);
        if ((*asked - before) / (now() - began) <= 100) return 1;
    }
    return 0;
}

// To itself, with each call that ends requests.
static void ends(void) {
    MPI_Request r[2 * KINDS], all[4];
    MPI_Status statuses[4];
    int flag, index, indices[2], ended;
    for (int i = 0; i < KINDS; i++) {
        MPI_Irecv(to[i], LONG, MPI_CHAR, 0, 10 + i, MPI_COMM_WORLD, &r[2 * i]);
        MPI_Isend(from[i], LONG, MPI_CHAR, 0, 10 + i, MPI_COMM_WORLD, &r[2 * i + 1]);
    }
    MPI_Wait(&r[0], MPI_STATUS_IGNORE), MPI_Wait(&r[1], MPI_STATUS_IGNORE);
    MPI_Waitall(2, &r[2], MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2; i++) MPI_Waitany(2, &r[4], &index, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2; i += ended) MPI_Waitsome(2, &r[6], &ended, indices, MPI_STATUSES_IGNORE);
    for (int i = 8; i < 10; i++)
        for (flag = 0; !flag;) MPI_Test(&r[i], &flag, MPI_STATUS_IGNORE);
    for (flag = 0; !flag;) MPI_Testall(2, &r[10], &flag, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2; i += flag) MPI_Testany(2, &r[12], &index, &flag, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2; i += ended > 0 ? ended : 0) MPI_Testsome(2, &r[14], &ended, indices, MPI_STATUSES_IGNORE);
    MPI_Request_free(&r[17]), MPI_Wait(&r[16], MPI_STATUS_IGNORE);
    MPI_Waitall(6, &r[18], MPI_STATUSES_IGNORE);
    // A receive that is cancelled, and one that is too short.
    MPI_Irecv(to[0], LONG, MPI_CHAR, 0, 50, MPI_COMM_WORLD, &r[0]);
    MPI_Cancel(&r[0]), MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    for (int i = 0; i < 2; i++) {
        MPI_Irecv(to[i], LONG / 2, MPI_CHAR, 0, 51, MPI_COMM_WORLD, &all[2 * i]);
        MPI_Isend(from[i], LONG, MPI_CHAR, 0, 51, MPI_COMM_WORLD, &all[2 * i + 1]);
    }
    MPI_Waitall(2, all, statuses);
    for (flag = 0; !flag;) flag = MPI_Testall(2, all + 2, &flag, statuses) != MPI_SUCCESS || flag;
    // Persistent ones, twice.
    MPI_Recv_init(to[0], LONG, MPI_CHAR, 0, 60, MPI_COMM_WORLD, &r[0]);
    MPI_Send_init(from[0], LONG, MPI_CHAR, 0, 60, MPI_COMM_WORLD, &r[1]);
    MPI_Startall(2, r), MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    MPI_Start(&r[0]), MPI_Start(&r[1]);
    for (flag = 0; !flag;) MPI_Testall(2, r, &flag, MPI_STATUSES_IGNORE);
    MPI_Request_free(&r[0]), MPI_Request_free(&r[1]);
    // Of collective calls.
    int counts[1] = {LONG}, places[1] = {0};
    MPI_Ibcast(to[0], LONG, MPI_CHAR, 0, MPI_COMM_SELF, &r[0]);
    MPI_Iallgather(from[1], LONG, MPI_CHAR, to[1], LONG, MPI_CHAR, MPI_COMM_SELF, &r[1]);
    MPI_Ialltoallv(from[2], counts, places, MPI_CHAR, to[2], counts, places, MPI_CHAR, MPI_COMM_SELF, &r[2]);
    MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, to[3], LONG, MPI_CHAR, MPI_COMM_SELF, &r[3]);
    MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, to[3], LONG, MPI_CHAR, MPI_COMM_SELF);
    MPI_Gather(from[0], LONG, MPI_CHAR, to[0], LONG, MPI_CHAR, 0, MPI_COMM_SELF);
}

int main(int count, char **words) {
    int provided;
    pthread_t id;
    MPI_Request request;
    MPI_Win window;
    asked = dlsym(RTLD_DEFAULT, "tests");
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    // A receive of a long message that has not come.
    pthread_create(&id, NULL, waits, (void *)(long)LONG);
    printf("a: asleep %d\n", sleeps());
    MPI_Send(from[0], 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    pthread_join(id, NULL);
    // Of a short one, beside a long one that the program has begun; then beside a window.
    pthread_create(&id, NULL, waits, (void *)1L);
    printf("b: asleep %d\n", sleeps());
    MPI_Irecv(to[1], LONG, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &request);
    printf("c: awake %d\n", is_awake());
    MPI_Send(from[1], LONG, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    ends();
    printf("d: asleep %d\n", sleeps());
    void *shown;
    MPI_Win_allocate(LONG, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &shown, &window);
    printf("e: awake %d\n", is_awake());
    MPI_Win_free(&window);
    printf("f: asleep %d\n", sleeps());
    MPI_Send(from[0], 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    pthread_join(id, NULL);
    MPI_Finalize();
    return 0;
}

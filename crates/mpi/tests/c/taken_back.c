// Threads of the first rank wait with large buffers, by each call that receives, until the rank sleeps; then the second sends: long messages, short ones, two of
// one tag in a row, one that is too long, and ready ones. Two ranks, with counts.c loaded. Prints whether it slept and how many came right.
// usage: taken_back [with a handler]
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LONG = 300000, THREADS = 20, START = 1000 };
static atomic_int *asked, right;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

// In one tenth of a second of many.
static int sleeps(void) {
    for (int i = 0; i < 300; i++) {
        int before = *asked;
        double began = now();
        usleep(100000);
        // Each look asks for each thread.
        if ((*asked - before) / (now() - began) <= 100 * THREADS) return 1;
    }
    return 0;
}

// What the second rank sends to thread t: its length and its bytes.
static int length(int t) { return t % 4 == 1 ? 10 + t : t == 4 ? 2 * LONG : LONG - t; }

static int as_sent(const char *buffer, int t) {
    for (int i = 0; i < length(t); i++)
        if (buffer[i] != (char)(i * 7 + t)) return 0;
    return 1;
}

static int tells(const MPI_Status *status, int t) {
    int count;
    MPI_Get_count(status, MPI_CHAR, &count);
    return status->MPI_SOURCE == 1 && status->MPI_TAG == t && count == length(t);
}

static void *waits(void *argument) {
    int t = (int)(long)argument, got, code = MPI_SUCCESS, class = MPI_SUCCESS;
    char *buffer = calloc(1, LONG), byte = 1;
    MPI_Status status = {.MPI_ERROR = 77};
    if (t % 4 == 2) {
        char short_one[10];
        code = MPI_Sendrecv(&byte, 1, MPI_CHAR, 1, START + t, buffer, LONG, MPI_CHAR, MPI_ANY_SOURCE, t, MPI_COMM_WORLD, &status);
        got = code == MPI_SUCCESS && as_sent(buffer, t) && tells(&status, t);
        MPI_Recv(short_one, 10, MPI_CHAR, 1, START + t, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (t % 4 == 3) {
        code = MPI_Recv(buffer, LONG, MPI_CHAR, 1, t, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        got = code == MPI_SUCCESS && as_sent(buffer, t);
    } else {
        code = MPI_Recv(buffer, LONG, MPI_CHAR, MPI_ANY_SOURCE, t, MPI_COMM_WORLD, &status);
        if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
        got = t == 4 ? class == MPI_ERR_TRUNCATE : code == MPI_SUCCESS && as_sent(buffer, t) && tells(&status, t) && status.MPI_ERROR == 77;
    }
    if (t == 8) {
        // The second of its tag, which has come already or comes now.
        code = MPI_Recv(buffer, LONG, MPI_CHAR, 1, t, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        right += code == MPI_SUCCESS && buffer[0] == 99;
    }
    right += got;
    if (!got) fprintf(stderr, "thread %d: code %d\n", t, code);
    free(buffer);
    return NULL;
}

static void unused(MPI_Comm *comm, int *code, ...) { (void)comm, (void)code; }

int main(int count, char **words) {
    int provided, rank, slept = 0;
    pthread_t ids[THREADS];
    char byte = 0, *buffer = malloc(2 * LONG);
    asked = dlsym(RTLD_DEFAULT, "tests");
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (count > 1) {
        // With a handler of the program's each thread ends its requests itself (Open MPI).
        MPI_Errhandler handler;
        MPI_Comm_create_errhandler(unused, &handler);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        for (long t = 0; t < THREADS; t++) pthread_create(&ids[t], NULL, waits, (void *)t);
        slept = sleeps();
        MPI_Send(&byte, 1, MPI_CHAR, 1, START, MPI_COMM_WORLD);
        for (int t = 0; t < THREADS; t++) pthread_join(ids[t], NULL);
        printf("asleep %d, right %d of %d\n", slept, right, THREADS + 1);
    } else {
        MPI_Recv(&byte, 1, MPI_CHAR, 0, START, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int t = 0; t < THREADS; t++) {
            for (int i = 0; i < 2 * LONG; i++) buffer[i] = i * 7 + t;
            // Its receive was there before the rank slept.
            if (t % 4 == 3)
                MPI_Rsend(buffer, length(t), MPI_CHAR, 0, t, MPI_COMM_WORLD);
            else
                MPI_Send(buffer, length(t), MPI_CHAR, 0, t, MPI_COMM_WORLD);
            if (t == 8) buffer[0] = 99, MPI_Send(buffer, LONG, MPI_CHAR, 0, t, MPI_COMM_WORLD);
            if (t % 4 == 2) {
                MPI_Recv(&byte, 1, MPI_CHAR, 0, START + t, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(&byte, 1, MPI_CHAR, 0, START + t, MPI_COMM_WORLD);
            }
        }
    }
    free(buffer);
    MPI_Finalize();
    return 0;
}

// A stencil over the ranks: T tiles a rank, a thread each, which exchange their edges with the tiles above and below by blocking calls, on the same rank or not.
// usage: stencil TILES ROWS COLUMNS STEPS. Prints a hash of all cells, which depends on the size and the steps alone.
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, ranks, tiles, rows, columns, steps;
static uint64_t *hashes;

// Rows of all ranks are dealt out to all tiles as evenly as can be.
static int first_row(int tile) { return (int)((long)rows * tile / (ranks * tiles)); }

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void *work(void *argument) {
    int tile = rank * tiles + (int)(long)argument, first = first_row(tile), height = first_row(tile + 1) - first;
    int above = tile > 0 ? (tile - 1) / tiles : MPI_PROC_NULL;
    int below = tile + 1 < ranks * tiles ? (tile + 1) / tiles : MPI_PROC_NULL;
    double *now = calloc((height + 2) * columns, sizeof *now), *next = calloc((height + 2) * columns, sizeof *next);
    for (int r = 1; r <= height; r++)
        for (int c = 0; c < columns; c++) now[r * columns + c] = (first + r) * 31 % 17 + c * 7 % 13;
    for (int step = 0; step < steps; step++) {
        // A message upwards has its receiver's number, one downwards its sender's and a mark.
        MPI_Sendrecv(now + columns, columns, MPI_DOUBLE, above, tile - 1 < 0 ? 0 : tile - 1, now + (height + 1) * columns,
                     columns, MPI_DOUBLE, below, tile, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv(now + height * columns, columns, MPI_DOUBLE, below, 10000 + tile, now, columns, MPI_DOUBLE, above,
                     10000 + (tile - 1 < 0 ? 0 : tile - 1), MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        memcpy(next, now, (height + 2) * columns * sizeof *now);
        for (int r = 1; r <= height; r++)
            for (int c = 1; c + 1 < columns; c++) {
                double *at = now + r * columns + c;
                next[r * columns + c] = 0.5 * *at + 0.125 * (at[-columns] + at[columns] + at[-1] + at[1]);
            }
        double *old = now;
        now = next;
        next = old;
    }
    for (int r = 1; r <= height; r++) {
        uint64_t hash = 0xcbf29ce484222325;
        for (unsigned char *byte = (void *)(now + r * columns), *end = (void *)(now + (r + 1) * columns); byte < end; byte++)
            hash = (hash ^ *byte) * 0x100000001b3;
        hashes[first + r - 1] = hash;
    }
    free(now);
    free(next);
    return NULL;
}

int main(int count, char **values) {
    int provided;
    MPI_Init_thread(&count, &values, MPI_THREAD_MULTIPLE, &provided);
    if (count < 5 || provided != MPI_THREAD_MULTIPLE) return 2;
    tiles = atoi(values[1]), rows = atoi(values[2]), columns = atoi(values[3]), steps = atoi(values[4]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rows < ranks * tiles || ranks * tiles > 10000) return 2;
    hashes = calloc(rows, sizeof *hashes);
    pthread_t *ids = malloc(tiles * sizeof *ids);
    MPI_Barrier(MPI_COMM_WORLD);
    double began = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID);
    for (long t = 0; t < tiles; t++) pthread_create(ids + t, NULL, work, (void *)t);
    for (int t = 0; t < tiles; t++) pthread_join(ids[t], NULL);
    uint64_t *all = calloc(rows, sizeof *all), hash = 0;
    MPI_Reduce(hashes, all, rows, MPI_UINT64_T, MPI_BOR, 0, MPI_COMM_WORLD);
    began = now(CLOCK_MONOTONIC) - began;
    used = now(CLOCK_PROCESS_CPUTIME_ID) - used;
    for (int r = 0; r < rows; r++) hash = hash * 31 + all[r];
    if (rank == 0) {
        printf("%016llx\n", (unsigned long long)hash);
        fprintf(stderr, "T=%d: %.2f us a step\n", tiles, began / steps * 1e6);
    }
    fprintf(stderr, "rank %d: %.2f us of processor time a step\n", rank, used / steps * 1e6);
    MPI_Finalize();
    return 0;
}

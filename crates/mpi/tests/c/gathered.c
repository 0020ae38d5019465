// Calls of all ranks that one rank comes to late: until then the other's thread is not in MPI. Two ranks, with entered.c loaded.
// Prints for each call whether it was so, and what the communicators and the window gave.
// usage: gathered FILE
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { DUP, SPLIT, CREATE, CART, MAKE, FENCE, AGAIN, WAIT, FREE, OPEN, CALLS };
static const char *const names[] = {"dup", "split", "create", "cart", "window", "fence", "fence", "wait", "free", "open"};
static atomic_int *entered, *begun;
static int rank, one = 1, *shown;
static const char *path;
static MPI_Comm made[4];
static MPI_Win window;
static MPI_File file;
static MPI_Group all, other;

static void *calls(void *what) {
    int size = 2, period = 0, value = 10 + rank;
    switch ((int)(long)what) {
    case DUP: MPI_Comm_dup(MPI_COMM_WORLD, &made[0]); break;
    case SPLIT: MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &made[1]); break;
    case CREATE: MPI_Comm_create(MPI_COMM_WORLD, all, &made[2]); break;
    case CART: MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &period, 0, &made[3]); break;
    case MAKE:
        // As each may be had natively (corners.c).
#ifdef MPICH
        shown = malloc(sizeof *shown);
        MPI_Win_create(shown, sizeof *shown, sizeof *shown, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
#else
        MPI_Win_allocate(sizeof *shown, sizeof *shown, MPI_INFO_NULL, MPI_COMM_WORLD, &shown, &window);
#endif
        break;
    case FENCE: MPI_Win_fence(0, window); break;
    case AGAIN:
        MPI_Put(&value, 1, MPI_INT, 1 - rank, 0, 1, MPI_INT, window);
        MPI_Win_fence(0, window);
        break;
    case WAIT:
        if (rank == 0) {
            MPI_Win_wait(window);
        } else {
            value = 20;
            MPI_Win_start(other, 0, window);
            MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
            MPI_Win_complete(window);
        }
        break;
    case FREE: MPI_Win_free(&window); break;
    case OPEN: MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file); break;
    }
    return NULL;
}

int main(int count, char **words) {
    int provided, value = 0;
    pthread_t id;
    path = words[1];
    entered = dlsym(RTLD_DEFAULT, "entered"), begun = dlsym(RTLD_DEFAULT, "begun");
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    int number = 1 - rank;
    MPI_Group_incl(all, 1, &number, &other);
    for (long what = 0; what < CALLS; what++) {
        if (rank == 0) {
            if (what == WAIT) MPI_Win_post(other, 0, window);
            int had_entered = *entered, had_begun = *begun;
            pthread_create(&id, NULL, calls, (void *)what);
            while (*entered == had_entered && *begun == had_begun) usleep(1000);
            usleep(20000);
            printf("%ld %s: lets others run %d\n", what, names[what], *entered == had_entered);
            MPI_Send(&one, 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
            pthread_join(id, NULL);
        } else {
            MPI_Recv(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            calls((void *)what);
        }
        if (what == AGAIN || what == WAIT) {
            if (rank == 0) printf("%ld got %d\n", what, *shown);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
    int ranks[4], sum = 0;
    for (int i = 0; i < 4; i++) {
        MPI_Comm_rank(made[i], &ranks[i]);
        MPI_Allreduce(&one, &value, 1, MPI_INT, MPI_SUM, made[i]);
        sum += value;
        MPI_Comm_free(&made[i]);
    }
    MPI_File_close(&file);
    if (rank == 0) printf("ranks %d %d %d %d of %d\n", ranks[0], ranks[1], ranks[2], ranks[3], sum / 4);
    MPI_Finalize();
    return 0;
}

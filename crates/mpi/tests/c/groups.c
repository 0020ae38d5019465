// Threads that make communicators of groups of ranks, with entered.c loaded. Three ranks.
//   order: a thread comes to its call before another rank's thread does, which first needs one more communicator of
//          both. Prints whether the first was not in MPI meanwhile.
//   many:  threads of all pairs and of all ranks, and threads that split and create, at once. Prints what was right, and
//          how many threads of the rank were in MPI's calls at once.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 8, KINDS = 6 };
static atomic_int *entered, *sent, *most, right;
static int rank;
static MPI_Comm parents[KINDS];

// Of these ranks, by a call with a tag; the sum over them.
static int group_of(MPI_Comm parent, const int *ranks, int count, int tag) {
    MPI_Group all, some;
    MPI_Comm made;
    int sum = 0;
    MPI_Comm_group(parent, &all);
    MPI_Group_incl(all, count, ranks, &some);
    MPI_Comm_create_group(parent, some, tag, &made);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, made);
    MPI_Comm_free(&made);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    return sum;
}

static const int pair[] = {0, 1};

static void *early(void *none) {
    right += group_of(MPI_COMM_WORLD, pair, 2, 1) == 1;
    return none;
}

static void in_order(void) {
    pthread_t id;
    int one = 1;
    if (rank == 0) {
        int had_entered = *entered, had_sent = *sent;
        pthread_create(&id, NULL, early, NULL);
        // It has told the other ranks that it has come.
        while (*sent == had_sent && *entered == had_entered) usleep(1000);
        printf("rank 0: lets others run %d\n", *entered == had_entered);
        MPI_Send(&one, 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
        right += group_of(MPI_COMM_WORLD, pair, 2, 2) == 1;
        pthread_join(id, NULL);
    } else if (rank == 1) {
        MPI_Recv(&one, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        right += group_of(MPI_COMM_WORLD, pair, 2, 2) == 1;
        early(NULL);
    }
    if (rank < 2) printf("rank %d: right %d\n", rank, right);
}

static void *rounds(void *number) {
    int kind = (int)(long)number, all[] = {0, 1, 2};
    MPI_Comm parent = parents[kind], made;
    MPI_Group group;
    for (int i = 0; i < ROUNDS; i++) {
        int sum = 0;
        switch (kind) {
        case 0: case 1: case 2: {
            // Pairs, of one communicator: each rank is in two of them.
            int of[] = {kind, (kind + 1) % 3};
            sum = rank == of[0] || rank == of[1] ? group_of(MPI_COMM_WORLD, of, 2, kind) : of[0] + of[1];
            right += sum == of[0] + of[1];
            continue;
        }
        case 3:
            // The same tag, of another one.
            right += group_of(parent, all, 3, 0) == 3;
            continue;
        case 4: MPI_Comm_split(parent, rank == 2, 0, &made); break;
        case 5:
            MPI_Comm_group(parent, &group);
            MPI_Comm_create(parent, group, &made);
            MPI_Group_free(&group);
            break;
        }
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, made);
        right += sum == (kind == 5 ? 3 : rank == 2 ? 2 : 1);
        // What is made has ranks that may make more of it.
        int of[] = {0};
        if (kind == 4 && rank == 0) right += group_of(made, of, 1, 0) == 0;
        MPI_Comm_free(&made);
    }
    return NULL;
}

int main(int count, char **words) {
    int provided;
    pthread_t ids[KINDS];
    entered = dlsym(RTLD_DEFAULT, "entered"), sent = dlsym(RTLD_DEFAULT, "sent"), most = dlsym(RTLD_DEFAULT, "most");
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!strcmp(words[1], "order")) {
        in_order();
    } else {
        for (int i = 0; i < KINDS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &parents[i]);
        *most = 0;
        for (long i = 0; i < KINDS; i++) pthread_create(&ids[i], NULL, rounds, (void *)i);
        for (int i = 0; i < KINDS; i++) pthread_join(ids[i], NULL);
        for (int i = 0; i < KINDS; i++) MPI_Comm_free(&parents[i]);
        printf("rank %d: right %d, at once %d\n", rank, right, *most);
    }
    MPI_Finalize();
    return 0;
}

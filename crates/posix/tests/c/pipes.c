// Pairs of threads that send bytes to and fro through pipes, by nothing but `read` and `write`.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PAIRS = 10, TURNS = 50 };
static int there[PAIRS][2], back[PAIRS][2];

static void *asks(void *argument) {
    long pair = (long)argument, sum = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        unsigned char byte = (unsigned char)turn;
        if (write(there[pair][1], &byte, 1) != 1 || read(back[pair][0], &byte, 1) != 1) exit(2);
        sum += byte;
    }
    return (void *)sum;
}

static void *answers(void *argument) {
    long pair = (long)argument;
    for (int turn = 0; turn < TURNS; turn++) {
        unsigned char byte;
        if (read(there[pair][0], &byte, 1) != 1) exit(3);
        byte++;
        if (write(back[pair][1], &byte, 1) != 1) exit(4);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[2 * PAIRS];
    long sum = 0;
    for (long pair = 0; pair < PAIRS; pair++) {
        if (pipe(there[pair]) != 0 || pipe(back[pair]) != 0) return 1;
        pthread_create(&threads[2 * pair], NULL, asks, (void *)pair);
        pthread_create(&threads[2 * pair + 1], NULL, answers, (void *)pair);
    }
    for (int i = 0; i < 2 * PAIRS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    printf("%ld\n", sum);
    return 0;
}

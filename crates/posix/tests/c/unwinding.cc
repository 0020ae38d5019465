// Destructors on pthread_exit and cancellation; an exception that leaves a thread ends the program.
#include <pthread.h>
#include <stdio.h>
#include <stdexcept>
#include <string.h>
#include <thread>
#include <unistd.h>

struct Loud {
    const char *name;
    ~Loud() {
        printf("~%s\n", name);
        fflush(stdout);
    }
};

static thread_local Loud own{"thread_local"};

static void inner() {
    Loud second{"second"};
    try {
        pthread_exit((void *)4);
    } catch (...) {
        printf("caught on the way\n");
        throw;
    }
}

static void *exits(void *) {
    own.name = "own";
    Loud first{"first"};
    inner();
    return nullptr;
}

static void *throws(void *) {
    throw std::runtime_error("left the thread");
}

static void terminated() {
    printf("terminate\n");
    fflush(stdout);
    _exit(3);
}

int main(int count, char **) {
    pthread_t t;
    void *value;
    pthread_create(&t, nullptr, exits, nullptr);
    pthread_join(t, &value);
    printf("%ld\n", (long)value);
    int caught = 0;
    std::thread([&] {
        try {
            throw std::runtime_error("inside");
        } catch (std::exception &error) {
            caught = strlen(error.what());
        }
    }).join();
    printf("caught %d\n", caught);
    fflush(stdout);
    std::set_terminate(terminated);
    pthread_create(&t, nullptr, throws, nullptr);
    pthread_join(t, nullptr);
    return 0;
}

// capget and capset of a thread that is named by its number, which was asked for before the thread has rights of its own; what one thread gives up
// stays the others'. The same natively.
#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

extern int capget(cap_user_header_t, cap_user_data_t), capset(cap_user_header_t, const cap_user_data_t);

static struct __user_cap_header_struct of(int number) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, number};
    return header;
}

// Whether a thread has nothing.
static int is_without(int number) {
    struct __user_cap_header_struct header = of(number);
    struct __user_cap_data_struct data[2] = {{1}};
    if (capget(&header, data) != 0) return -errno;
    return data[0].effective == 0 && data[1].effective == 0;
}

static int has_none;

static void *gives_up(void *who) {
    const int number = gettid();
    struct __user_cap_header_struct header = of(number);
    struct __user_cap_data_struct data[2], none[2] = {{0}};
    int asked = capget(&header, data);
    printf("%s: ask %d, as by 0: %d\n", (char *)who, asked, is_without(number) == is_without(0));
    none[0].permitted = data[0].permitted, none[1].permitted = data[1].permitted;
    header = of(number);
    int given_up = capset(&header, none);
    printf("give up %d: %d %d %d\n", given_up, is_without(number), is_without(gettid()), is_without(0));
    header = of(number);
    int taken_back = syscall(SYS_capset, &header, data);
    printf("take back %d: %d\n", taken_back, is_without(number) == has_none);
    header.version = 1;
    int refused = capset(&header, none);
    printf("version: %d %d %d\n", refused, errno == EINVAL, header.version == _LINUX_CAPABILITY_VERSION_3);
    header = of(1);
    refused = capset(&header, data);
    printf("another's: %d %d\n", refused, errno == EPERM);
    refused = capset(NULL, data);
    printf("none: %d %d\n", refused, errno == EFAULT);
    return NULL;
}

static void *keeps(void *argument) {
    printf("kept: %d\n", is_without(0) == has_none && is_without(gettid()) == has_none);
    return NULL;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    has_none = is_without(0);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, gives_up, "thread");
        pthread_join(thread, NULL);
        pthread_create(&thread, NULL, keeps, NULL);
        pthread_join(thread, NULL);
    }
    gives_up("first");
    return 0;
}

// libuv: its pool of threads, its loop's wake-ups, and files read by the pool.
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

enum { N = 2000 };
static long sum, files;
static uv_work_t requests[N];

static void work(uv_work_t *request) { request->data = (void *)((long)request->data * 2); }
static void after(uv_work_t *request, int status) { sum += status == 0 ? (long)request->data : -1; }
static void opened(uv_fs_t *request) {
    files += request->result >= 0;
    if (request->result >= 0) {
        uv_fs_t close;
        uv_fs_close(request->loop, &close, request->result, NULL);
        uv_fs_req_cleanup(&close);
    }
    uv_fs_req_cleanup(request);
}
static void ticked(uv_timer_t *timer) { uv_timer_stop(timer); }

int main(void) {
    uv_loop_t *loop = uv_default_loop();
    uv_timer_t timer;
    uv_timer_init(loop, &timer);
    uv_timer_start(&timer, ticked, 20, 0);
    static uv_fs_t opens[50];
    for (int i = 0; i < 50; i++) uv_fs_open(loop, &opens[i], "/etc/passwd", UV_FS_O_RDONLY, 0, opened);
    for (long i = 0; i < N; i++) {
        requests[i].data = (void *)i;
        if (uv_queue_work(loop, &requests[i], work, after) != 0) return 1;
    }
    uv_run(loop, UV_RUN_DEFAULT);
    printf("%ld %ld\n", sum, files);
    return 0;
}

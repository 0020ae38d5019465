// Every kind of blocking call, by T threads a rank: what each rank got is printed, sorted by thread, and must be as natively.
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks, threads;
static char said[64][1200];
static MPI_Comm comms[64];

#define SAY(...) (out += snprintf(out, 100, __VA_ARGS__))

static void *work(void *argument) {
    int t = (int)(long)argument, to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks, x = rank * 100 + t, y = -1;
    char *out = said[t];
    MPI_Comm comm = comms[t];
    MPI_Status status;
    // messages, each kind to the next rank
    if (rank == 0) {
        MPI_Send(&x, 1, MPI_INT, to, t, MPI_COMM_WORLD);
        MPI_Recv(&y, 1, MPI_INT, from, t, MPI_COMM_WORLD, &status);
    } else {
        MPI_Recv(&y, 1, MPI_INT, from, t, MPI_COMM_WORLD, &status);
        MPI_Ssend(&x, 1, MPI_INT, to, t, MPI_COMM_WORLD);
    }
    int count;
    MPI_Get_count(&status, MPI_INT, &count);
    SAY("recv %d from %d tag %d count %d;", y, status.MPI_SOURCE, status.MPI_TAG, count);
    MPI_Sendrecv(&x, 1, MPI_INT, to, 100 + t, &y, 1, MPI_INT, from, 100 + t, MPI_COMM_WORLD, &status);
    SAY(" sendrecv %d from %d;", y, status.MPI_SOURCE);
    int z[3] = {x, x + 1, x + 2};
    MPI_Sendrecv_replace(z, 3, MPI_INT, to, 200 + t, from, 200 + t, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    SAY(" replace %d %d;", z[0], z[2]);
    // the same ones by their addresses, in another order
    MPI_Aint places[2];
    int lengths[2] = {1, 2};
    MPI_Datatype absolute;
    MPI_Get_address(&z[2], &places[0]);
    MPI_Get_address(&z[0], &places[1]);
    MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &absolute);
    MPI_Type_commit(&absolute);
    z[1] += 5;
    MPI_Sendrecv_replace(MPI_BOTTOM, 1, absolute, to, 200 + t, from, 200 + t, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Type_free(&absolute);
    SAY(" by addresses %d %d %d;", z[0], z[1], z[2]);
    MPI_Sendrecv(&x, 1, MPI_INT, MPI_PROC_NULL, 1, &y, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    SAY(" null %d;", status.MPI_SOURCE == MPI_PROC_NULL);
    // a status keeps what stood in its place for an error, also where the message comes late
    MPI_Request request, many[4];
    MPI_Message message;
    MPI_Status late[3];
    for (int i = 0; i < 3; i++) {
        late[i].MPI_ERROR = 70 + i;
        if (rank == 0) {
            usleep(10000);
            MPI_Send(&x, 1, MPI_INT, to, 250 + t, MPI_COMM_WORLD);
        }
        if (i == 0) MPI_Recv(&y, 1, MPI_INT, from, 250 + t, MPI_COMM_WORLD, &late[i]);
        if (i == 1) {
            MPI_Mprobe(from, 250 + t, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
            MPI_Mrecv(&y, 1, MPI_INT, &message, &late[i]);
        }
        if (i == 2) {
            MPI_Irecv(&y, 1, MPI_INT, from, 250 + t, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, &late[i]);
        }
        if (rank != 0) MPI_Send(&x, 1, MPI_INT, to, 250 + t, MPI_COMM_WORLD);
    }
    SAY(" kept %d %d %d;", late[0].MPI_ERROR, late[1].MPI_ERROR, late[2].MPI_ERROR);
    // probes
    MPI_Isend(z, 3, MPI_INT, to, 300 + t, MPI_COMM_WORLD, &request);
    MPI_Probe(from, 300 + t, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    MPI_Mprobe(from, 300 + t, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(z, 3, MPI_INT, &message, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    SAY(" probe %d got %d; null after %d;", count, z[1], request == MPI_REQUEST_NULL);
    // completion of many, null ones among them
    int in[4] = {-1, -1, -1, -1};
    MPI_Status statuses[5];
    MPI_Request five[5];
    for (int i = 0; i < 2; i++) MPI_Irecv(in + i, 1, MPI_INT, from, 400 + 2 * t + i, MPI_COMM_WORLD, five + i);
    five[2] = MPI_REQUEST_NULL;
    for (int i = 0; i < 2; i++) MPI_Isend(&x, 1, MPI_INT, to, 400 + 2 * t + i, MPI_COMM_WORLD, five + 3 + i);
    MPI_Waitall(5, five, statuses);
    SAY(" waitall %d %d tag %d;", in[0], in[1], statuses[1].MPI_TAG - 2 * t);
    for (int i = 0; i < 4; i++) MPI_Irecv(in + i, 1, MPI_INT, from, 600 + 4 * t + i, MPI_COMM_WORLD, many + i);
    for (int i = 0; i < 4; i++) { x++; MPI_Send(&x, 1, MPI_INT, to, 600 + 4 * t + i, MPI_COMM_WORLD); }
    int index, some, indices[4], got = 0, sum = 0;
    MPI_Waitany(4, many, &index, MPI_STATUS_IGNORE);
    got = 1;
    while (got < 4) { MPI_Waitsome(4, many, &some, indices, MPI_STATUSES_IGNORE); got += some; }
    for (int i = 0; i < 4; i++) sum += in[i];
    MPI_Waitsome(4, many, &some, indices, MPI_STATUSES_IGNORE);
    MPI_Waitany(4, many, &index, MPI_STATUS_IGNORE);
    SAY(" some %d; none %d %d;", sum, some == MPI_UNDEFINED, index == MPI_UNDEFINED);
    // a persistent request
    MPI_Recv_init(&y, 1, MPI_INT, from, 900 + t, MPI_COMM_WORLD, &request);
    for (int i = 0; i < 3; i++) {
        MPI_Start(&request);
        MPI_Send(&i, 1, MPI_INT, to, 900 + t, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    SAY(" persistent %d kept %d;", y, request != MPI_REQUEST_NULL);
    MPI_Request_free(&request);
    // collective calls, each thread on a communicator of its own
    int all[16], share, a = rank + 1;
    MPI_Barrier(comm);
    int b = rank == 0 ? 7 + t : 0;
    MPI_Bcast(&b, 1, MPI_INT, 0, comm);
    MPI_Allreduce(&a, &sum, 1, MPI_INT, MPI_SUM, comm);
    MPI_Allgather(&a, 1, MPI_INT, all, 1, MPI_INT, comm);
    SAY(" bcast %d allreduce %d allgather %d;", b, sum, all[ranks - 1]);
    MPI_Gather(&a, 1, MPI_INT, all, 1, MPI_INT, 0, comm);
    MPI_Scatter(all, 1, MPI_INT, &share, 1, MPI_INT, 0, comm);
    MPI_Alltoall(all, 1, MPI_INT, in, 1, MPI_INT, comm);
    int s = 0, e = 0, r = 0;
    MPI_Scan(&a, &s, 1, MPI_INT, MPI_SUM, comm);
    MPI_Exscan(&a, &e, 1, MPI_INT, MPI_SUM, comm);
    MPI_Reduce(&a, &r, 1, MPI_INT, MPI_MAX, 0, comm);
    int counts[16], displacements[16];
    for (int i = 0; i < ranks; i++) counts[i] = 1, displacements[i] = i;
    MPI_Allgatherv(&a, 1, MPI_INT, all, counts, displacements, MPI_INT, comm);
    MPI_Reduce_scatter(all, &b, counts, MPI_INT, MPI_SUM, comm);
    SAY(" scatter %d alltoall %d scan %d exscan %d reduce %d rs %d;", share, in[0], s, rank ? e : 0, r, b);
    return 0;
}

int main(int count, char **values) {
    int provided;
    MPI_Init_thread(&count, &values, MPI_THREAD_MULTIPLE, &provided);
    if (provided != MPI_THREAD_MULTIPLE) return 3;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    threads = atoi(values[1]);
    for (int t = 0; t < threads; t++) MPI_Comm_dup(MPI_COMM_WORLD, comms + t);
    pthread_t ids[64];
    for (long t = 0; t < threads; t++) pthread_create(ids + t, 0, work, (void *)t);
    for (int t = 0; t < threads; t++) pthread_join(ids[t], 0);
    // a file, all ranks in it
    char name[200];
    snprintf(name, sizeof name, "%s", values[2]);
    MPI_File file;
    int mine = rank + 40, theirs = 0;
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_set_size(file, 0);
    MPI_File_write_at_all(file, rank * sizeof mine, &mine, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_read_at(file, ((rank + 1) % ranks) * sizeof mine, &theirs, 1, MPI_INT, MPI_STATUS_IGNORE);
    // fewer than asked for at its end; and a device that takes nothing, which MPICH tells
    MPI_Status last;
    int many[100], got = 0, full = 0, refused = 0;
    MPI_File_read_at(file, (ranks - 1) * sizeof mine, many, 100, MPI_INT, &last);
    MPI_Get_count(&last, MPI_INT, &got);
    MPI_File_close(&file);
    MPI_File_open(MPI_COMM_SELF, "/dev/full", MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    full = MPI_File_write_at(file, 0, many, 100, MPI_INT, &last);
    refused = MPI_File_write_at_all(file, 0, many, 100, MPI_INT, &last);
    MPI_File_close(&file);
    // an error comes back where it is asked for
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int class = 0, error = MPI_Send(&mine, 1, MPI_INT, ranks + 5, 0, MPI_COMM_WORLD);
    MPI_Error_class(error, &class);
    // a message that is too long for its place
    int two[2] = {1, 2}, one = 0, cut = 0;
    MPI_Request request;
    MPI_Isend(two, 2, MPI_INT, (rank + 1) % ranks, 5000, MPI_COMM_WORLD, &request);
    error = MPI_Recv(&one, 1, MPI_INT, (rank + ranks - 1) % ranks, 5000, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Error_class(error, &cut);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int r = 0; r < ranks; r++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (r != rank) continue;
        for (int t = 0; t < threads; t++) printf("rank %d thread %d: %s\n", rank, t, said[t]);
        printf("rank %d: at the end %d, refused %d %d\n", rank, got, full != MPI_SUCCESS, refused != MPI_SUCCESS);
        printf("rank %d: file %d, a wrong rank's error %d, one too long %d\n", rank, theirs, class == MPI_ERR_RANK, cut == MPI_ERR_TRUNCATE);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}

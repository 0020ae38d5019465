//! Calls in which all ranks take part, and files.
//!
//! For what has no non-blocking form see [`gathered`](crate::gathered). Lengths that stand in arrays, or count at some
//! ranks alone, are not looked at: such a call is as if long. Files end by themselves.

use crate::entries::{blocking, blocking_with_status};
use crate::lengths::{message, of_each};

blocking! {
    MPI_Barrier: Ibarrier(comm) if false;
    MPI_Bcast: Ibcast(buffer, count, datatype, root, comm) if message(count, datatype);
    MPI_Gather: Igather(sb, sc, st, rb, rc, rt, root, comm) if true;
    MPI_Gatherv: Igatherv(sb, sc, st, rb, rc, displacements, rt, root, comm) if true;
    MPI_Scatter: Iscatter(sb, sc, st, rb, rc, rt, root, comm) if true;
    MPI_Scatterv: Iscatterv(sb, sc, displacements, st, rb, rc, rt, root, comm) if true;
    MPI_Allgather: Iallgather(sb, sc, st, rb, rc, rt, comm) if of_each(rc, rt, comm);
    MPI_Allgatherv: Iallgatherv(sb, sc, st, rb, rc, displacements, rt, comm) if true;
    MPI_Alltoall: Ialltoall(sb, sc, st, rb, rc, rt, comm) if of_each(rc, rt, comm);
    MPI_Alltoallv: Ialltoallv(sb, sc, sd, st, rb, rc, rd, rt, comm) if true;
    MPI_Alltoallw: Ialltoallw(sb, sc, sd, st, rb, rc, rd, rt, comm) if true;
    MPI_Reduce: Ireduce(sb, rb, count, datatype, op, root, comm) if message(count, datatype);
    MPI_Allreduce: Iallreduce(sb, rb, count, datatype, op, comm) if message(count, datatype);
    MPI_Reduce_scatter: Ireduce_scatter(sb, rb, counts, datatype, op, comm) if true;
    MPI_Reduce_scatter_block: Ireduce_scatter_block(sb, rb, count, datatype, op, comm) if of_each(count, datatype, comm);
    MPI_Scan: Iscan(sb, rb, count, datatype, op, comm) if message(count, datatype);
    MPI_Exscan: Iexscan(sb, rb, count, datatype, op, comm) if message(count, datatype);
    MPI_Neighbor_allgather: Ineighbor_allgather(sb, sc, st, rb, rc, rt, comm) if true;
    MPI_Neighbor_allgatherv: Ineighbor_allgatherv(sb, sc, st, rb, rc, displacements, rt, comm) if true;
    MPI_Neighbor_alltoall: Ineighbor_alltoall(sb, sc, st, rb, rc, rt, comm) if true;
    MPI_Neighbor_alltoallv: Ineighbor_alltoallv(sb, sc, sd, st, rb, rc, rd, rt, comm) if true;
    MPI_Neighbor_alltoallw: Ineighbor_alltoallw(sb, sc, sd, st, rb, rc, rd, rt, comm) if true;
}

blocking_with_status! {
    MPI_File_read: File_iread(file, buffer, count, datatype) if true;
    MPI_File_write: File_iwrite(file, buffer, count, datatype) if true;
    MPI_File_read_at: File_iread_at(file, offset, buffer, count, datatype) if true;
    MPI_File_write_at: File_iwrite_at(file, offset, buffer, count, datatype) if true;
    MPI_File_read_all: File_iread_all(file, buffer, count, datatype) if true;
    MPI_File_write_all: File_iwrite_all(file, buffer, count, datatype) if true;
    MPI_File_read_at_all: File_iread_at_all(file, offset, buffer, count, datatype) if true;
    MPI_File_write_at_all: File_iwrite_at_all(file, offset, buffer, count, datatype) if true;
    MPI_File_read_shared: File_iread_shared(file, buffer, count, datatype) if true;
    MPI_File_write_shared: File_iwrite_shared(file, buffer, count, datatype) if true;
}

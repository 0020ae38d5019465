! Calls of Fortran's: messages to and fro, a status, requests, collective calls, one of them in place.
program fortran
   use mpi
   implicit none
   integer :: error, rank, ranks, provided, told(MPI_STATUS_SIZE), value, total, request, i
   integer :: all(4)
   call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided, error)
   call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
   call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
   do i = 1, 100
      value = i
      if (rank == 0) then
         call MPI_Send(value, 1, MPI_INTEGER, 1, 7, MPI_COMM_WORLD, error)
         call MPI_Recv(value, 1, MPI_INTEGER, 1, 8, MPI_COMM_WORLD, told, error)
         if (told(MPI_SOURCE) /= 1 .or. told(MPI_TAG) /= 8 .or. value /= 2*i) print *, 'wrong', told, value
      else if (rank == 1) then
         call MPI_Recv(value, 1, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
         value = 2*value
         call MPI_Send(value, 1, MPI_INTEGER, 0, 8, MPI_COMM_WORLD, error)
      end if
   end do
   total = rank + 1
   call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
   call MPI_Bcast(total, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
   call MPI_Isend(rank, 1, MPI_INTEGER, mod(rank + 1, ranks), 9, MPI_COMM_WORLD, request, error)
   call MPI_Recv(value, 1, MPI_INTEGER, mod(rank + ranks - 1, ranks), 9, MPI_COMM_WORLD, told, error)
   call MPI_Wait(request, told, error)
   all = -1
   call MPI_Gather(rank, 1, MPI_INTEGER, all, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
   call MPI_Barrier(MPI_COMM_WORLD, error)
   print '(a,i0,a,i0,a,i0,a,4(i0,1x))', 'rank ', rank, ' sum ', total, ' from ', value, ' all ', all
   call MPI_Finalize(error)
end program

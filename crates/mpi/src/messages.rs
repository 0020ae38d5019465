//! Messages from one rank to another.

use crate::abi::{self, RequestBytes, Word, abi, pmpi, wanted, word};
use crate::completion::{Long, finish_all};
use crate::entries::{blocking, blocking_with_status, profiled};
use crate::handlers::{self, Receive};
use crate::lengths::{self, message, whole};
use crate::soon::{Kind, finish, finish_receive};
use crate::waits::{Single, TAKEN_BACK};
use std::ffi::c_int;

// A ready send is a standard one, as MPI allows: the receive that it relies on may have been taken back.
blocking! {
    MPI_Send: Isend(buffer, count, datatype, rank, tag, comm) if message(count, datatype);
    MPI_Ssend: Issend(buffer, count, datatype, rank, tag, comm) if message(count, datatype);
    MPI_Rsend: Isend(buffer, count, datatype, rank, tag, comm) if message(count, datatype);
    MPI_Send_c: Isend_c(buffer, count, datatype, rank, tag, comm) if whole(count, datatype);
    MPI_Ssend_c: Issend_c(buffer, count, datatype, rank, tag, comm) if whole(count, datatype);
    MPI_Rsend_c: Isend_c(buffer, count, datatype, rank, tag, comm) if whole(count, datatype);
}

/// Receives from whoever it is. From nobody at once: MPICH 4.0 leaves the status of a non-blocking receive from nobody
/// empty.
macro_rules! receiving {
    ($($mpi:ident: $at_once:ident, $begin:ident, $number:ident;)*) => {$(
        /// # Safety
        /// As MPI says.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $mpi(
            buffer: Word,
            count: Word,
            datatype: Word,
            rank: Word,
            tag: Word,
            comm: Word,
            status: Word,
        ) -> c_int {
            static KIND: Kind = Kind::new();
            let mut request: RequestBytes = [0];
            let place = word(request.as_mut_ptr());
            // SAFETY: the caller's arguments, and a place for the request.
            unsafe {
                if abi().is_nobody(rank) {
                    let receive = pmpi!($at_once: fn(Word, Word, Word, Word, Word, Word, Word));
                    return receive(buffer, count, datatype, rank, tag, comm, status);
                }
                let number = lengths::$number(count);
                let asked = Receive { buffer, count: number, datatype, rank, tag, comm, status };
                if handlers::differ(comm) {
                    return handlers::receive(&asked);
                }
                let begin = pmpi!($begin: fn(Word, Word, Word, Word, Word, Word, Word));
                match begin(buffer, count, datatype, rank, tag, comm, place) {
                    abi::SUCCESS => {
                        match finish_receive(&KIND, &mut request, wanted(status), || whole(number, datatype)) {
                            TAKEN_BACK => handlers::receive(&asked),
                            code => code,
                        }
                    }
                    error => error,
                }
            }
        }
    )*};
}

receiving! {
    MPI_Recv: Recv, Irecv, number;
    MPI_Recv_c: Recv_c, Irecv_c, large_number;
}

profiled! {
    MPI_Recv(buffer, count, datatype, rank, tag, comm, status);
    MPI_Recv_c(buffer, count, datatype, rank, tag, comm, status);
    MPI_Probe(rank, tag, comm, status);
    MPI_Mprobe(rank, tag, comm, message, status);
    MPI_Sendrecv(sb, sc, st, to, send_tag, rb, rc, rt, from, receive_tag, comm, status);
    MPI_Sendrecv_replace(buffer, count, datatype, to, send_tag, from, receive_tag, comm, status);
}

blocking_with_status! {
    MPI_Mrecv: Imrecv(buffer, count, datatype, from) if message(count, datatype);
    MPI_Mrecv_c: Imrecv_c(buffer, count, datatype, from) if whole(count, datatype);
}

/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Probe(rank: Word, tag: Word, comm: Word, status: Word) -> c_int {
    static KIND: Kind = Kind::new();
    let probe = pmpi!(Iprobe: fn(Word, Word, Word, Word, Word));
    crate::completion::until(&KIND, |flag| {
        // SAFETY: the caller's arguments, and a place for the flag.
        unsafe { probe(rank, tag, comm, flag, status) }
    })
}

/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Mprobe(rank: Word, tag: Word, comm: Word, message: Word, status: Word) -> c_int {
    static KIND: Kind = Kind::new();
    let probe = pmpi!(Improbe: fn(Word, Word, Word, Word, Word, Word));
    crate::completion::until(&KIND, |flag| {
        // SAFETY: the caller's arguments, and a place for the flag.
        unsafe { probe(rank, tag, comm, flag, message, status) }
    })
}

/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case, clippy::too_many_arguments)]
pub unsafe extern "C" fn MPI_Sendrecv(
    send_buffer: Word,
    send_count: Word,
    send_type: Word,
    to: Word,
    send_tag: Word,
    receive_buffer: Word,
    receive_count: Word,
    receive_type: Word,
    from: Word,
    receive_tag: Word,
    comm: Word,
    status: Word,
) -> c_int {
    if abi().is_nobody(from) {
        // SAFETY: the caller's arguments.
        return unsafe {
            match MPI_Send(send_buffer, send_count, send_type, to, send_tag, comm) {
                abi::SUCCESS => MPI_Recv(receive_buffer, receive_count, receive_type, from, receive_tag, comm, status),
                error => error,
            }
        };
    }
    static KIND: Kind = Kind::new();
    let (mut sent, mut received): (RequestBytes, RequestBytes) = ([0], [0]);
    let receive = pmpi!(Irecv: fn(Word, Word, Word, Word, Word, Word, Word));
    let send = pmpi!(Isend: fn(Word, Word, Word, Word, Word, Word, Word));
    if handlers::differ(comm) {
        let place = word(sent.as_mut_ptr());
        // SAFETY: the caller's arguments, and a place for the request.
        return unsafe {
            match send(send_buffer, send_count, send_type, to, send_tag, comm, place) {
                abi::SUCCESS => {
                    let code = MPI_Recv(receive_buffer, receive_count, receive_type, from, receive_tag, comm, status);
                    let sent = finish(&KIND, &mut sent, None, || message(send_count, send_type));
                    if code == abi::SUCCESS { sent } else { code }
                }
                error => error,
            }
        };
    }
    // SAFETY: the caller's arguments, and places for the requests.
    unsafe {
        let code =
            receive(receive_buffer, receive_count, receive_type, from, receive_tag, comm, word(received.as_mut_ptr()));
        if code != abi::SUCCESS {
            return code;
        }
        let code = send(send_buffer, send_count, send_type, to, send_tag, comm, word(sent.as_mut_ptr()));
        if code != abi::SUCCESS {
            // The receive would write to the caller's buffer after the return.
            let place = word(received.as_mut_ptr());
            pmpi!(Cancel: fn(Word))(place);
            finish(&KIND, &mut received, None, || false);
            return code;
        }
    }
    let singles = [
        Single { request: received.as_mut_ptr().cast(), status: wanted(status), recall: true },
        Single { request: sent.as_mut_ptr().cast(), status: None, recall: false },
    ];
    let long = || {
        let receive = message(receive_count, receive_type);
        Long { any: receive || message(send_count, send_type), receive }
    };
    match finish_all(&KIND, &singles, long) {
        // SAFETY: the caller's arguments.
        TAKEN_BACK => unsafe { MPI_Recv(receive_buffer, receive_count, receive_type, from, receive_tag, comm, status) },
        code => code,
    }
}

/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case, clippy::too_many_arguments)]
pub unsafe extern "C" fn MPI_Sendrecv_replace(
    buffer: Word,
    count: Word,
    datatype: Word,
    to: Word,
    send_tag: Word,
    from: Word,
    receive_tag: Word,
    comm: Word,
    status: Word,
) -> c_int {
    let (mut size, mut filled): (c_int, c_int) = (0, 0);
    let pack_size = pmpi!(Pack_size: fn(Word, Word, Word, Word));
    let pack = pmpi!(Pack: fn(Word, Word, Word, Word, Word, Word, Word));
    // SAFETY: the caller's arguments, and places for the answers; the copy is as large as MPI says, and lives until
    // both ended.
    unsafe {
        let code = pack_size(count, datatype, comm, word(&raw mut size));
        if code != abi::SUCCESS {
            return code;
        }
        let mut copy = vec![0u8; size.max(0) as usize];
        let code = pack(buffer, count, datatype, word(copy.as_mut_ptr()), copy.len(), word(&raw mut filled), comm);
        if code != abi::SUCCESS {
            return code;
        }
        MPI_Sendrecv(
            word(copy.as_ptr()),
            filled as Word,
            abi::packed(),
            to,
            send_tag,
            buffer,
            count,
            datatype,
            from,
            receive_tag,
            comm,
            status,
        )
    }
}

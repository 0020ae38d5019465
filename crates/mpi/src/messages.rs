//! Messages from one rank to another.

use crate::abi::{self, RequestBytes, Word, abi, has_large_counts, is_open_mpi, pmpi, wanted, word};
use crate::completion::{Long, finish_all};
use crate::entries::{as_int, blocking, blocking_with_status, profiled, without_large_counts};
use crate::handlers::{self, Receive};
use crate::lengths::{self, message, number, whole};
use crate::soon::{Kind, finish, finish_receive};
use crate::waits::{Single, TAKEN_BACK};
use std::ffi::c_int;

// A ready send is a standard one, as MPI allows: the receive that it relies on may have been taken back.
blocking! {
    MPI_Send: Isend(buffer, count, datatype, rank, tag, comm) if message(count, datatype);
    MPI_Ssend: Issend(buffer, count, datatype, rank, tag, comm) if message(count, datatype);
    MPI_Rsend: Isend(buffer, count, datatype, rank, tag, comm) if message(count, datatype);
    MPI_Send_c: Isend_c(buffer, count, datatype, rank, tag, comm) if whole(count, datatype), or MPI_Send;
    MPI_Ssend_c: Issend_c(buffer, count, datatype, rank, tag, comm) if whole(count, datatype), or MPI_Ssend;
    MPI_Rsend_c: Isend_c(buffer, count, datatype, rank, tag, comm) if whole(count, datatype), or MPI_Rsend;
}

/// Receives from whoever it is. From nobody at once: MPICH 4.0 leaves the status of a non-blocking receive from nobody
/// empty.
macro_rules! receiving {
    ($($mpi:ident: $at_once:ident, $begin:ident, $number:ident $(, or $small:ident)?;)*) => {$(
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
            without_large_counts! { [$($small)?] (buffer, count, datatype, rank, tag, comm, status) }
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
                    return match handlers::refused(&asked, count) {
                        abi::SUCCESS => handlers::receive(&asked),
                        error => error,
                    };
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
    MPI_Recv_c: Recv_c, Irecv_c, large_number, or MPI_Recv;
}

profiled! {
    MPI_Recv(buffer, count, datatype, rank, tag, comm, status);
    MPI_Recv_c(buffer, count, datatype, rank, tag, comm, status);
    MPI_Probe(rank, tag, comm, status);
    MPI_Mprobe(rank, tag, comm, message, status);
    MPI_Sendrecv(sb, sc, st, to, send_tag, rb, rc, rt, from, receive_tag, comm, status);
    MPI_Sendrecv_replace(buffer, count, datatype, to, send_tag, from, receive_tag, comm, status);
    MPI_Sendrecv_c(sb, sc, st, to, send_tag, rb, rc, rt, from, receive_tag, comm, status);
    MPI_Sendrecv_replace_c(buffer, count, datatype, to, send_tag, from, receive_tag, comm, status);
}

blocking_with_status! {
    MPI_Mrecv: Imrecv(buffer, count, datatype, from) if message(count, datatype);
    MPI_Mrecv_c: Imrecv_c(buffer, count, datatype, from) if whole(count, datatype), or MPI_Mrecv;
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

/// Sends and receives.
macro_rules! exchanging {
    ($($mpi:ident: $send:ident, $receive:ident, $sends:ident, $receives:ident, $is_long:ident, $number:ident
        $(, or $small:ident)?;)*) => {$(
        /// # Safety
        /// As MPI says.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub unsafe extern "C" fn $mpi(
            sb: Word,
            sc: Word,
            st: Word,
            to: Word,
            send_tag: Word,
            rb: Word,
            rc: Word,
            rt: Word,
            from: Word,
            receive_tag: Word,
            comm: Word,
            status: Word,
        ) -> c_int {
            without_large_counts! { [$($small)?] (sb, sc, st, to, send_tag, rb, rc, rt, from, receive_tag, comm, status) }
            if abi().is_nobody(from) {
                // SAFETY: the caller's arguments.
                return unsafe {
                    match $sends(sb, sc, st, to, send_tag, comm) {
                        abi::SUCCESS => $receives(rb, rc, rt, from, receive_tag, comm, status),
                        error => error,
                    }
                };
            }
            static KIND: Kind = Kind::new();
            let (mut sent, mut received): (RequestBytes, RequestBytes) = ([0], [0]);
            let receive = pmpi!($receive: fn(Word, Word, Word, Word, Word, Word, Word));
            let send = pmpi!($send: fn(Word, Word, Word, Word, Word, Word, Word));
            let number = lengths::$number(rc);
            let asked =
                Receive { buffer: rb, count: number, datatype: rt, rank: from, tag: receive_tag, comm, status };
            let receives = || {
                // SAFETY: the caller's arguments.
                unsafe { $receives(rb, rc, rt, from, receive_tag, comm, status) }
            };
            if handlers::differ(comm) {
                // SAFETY: the caller's arguments.
                let code = unsafe { handlers::refused(&asked, rc) };
                if code != abi::SUCCESS {
                    return code;
                }
                let place = word(sent.as_mut_ptr());
                // SAFETY: the caller's arguments, and a place for the request.
                return unsafe {
                    match send(sb, sc, st, to, send_tag, comm, place) {
                        abi::SUCCESS => {
                            handlers::receive_beside(&asked, &mut sent, $is_long(sc, st), receives)
                        }
                        error => error,
                    }
                };
            }
            // SAFETY: the caller's arguments, and places for the requests.
            unsafe {
                let code =
                    receive(rb, rc, rt, from, receive_tag, comm, word(received.as_mut_ptr()));
                if code != abi::SUCCESS {
                    return code;
                }
                let code = send(sb, sc, st, to, send_tag, comm, word(sent.as_mut_ptr()));
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
                let receive = $is_long(rc, rt);
                Long { any: receive || $is_long(sc, st), receive }
            };
            match finish_all(&KIND, &singles, long) {
                // SAFETY: the caller's arguments.
                TAKEN_BACK => unsafe { handlers::receive_beside(&asked, &mut sent, $is_long(sc, st), receives) },
                code => code,
            }
        }
    )*};
}

exchanging! {
    MPI_Sendrecv: Isend, Irecv, MPI_Send, MPI_Recv, message, number;
    MPI_Sendrecv_c: Isend_c, Irecv_c, MPI_Send_c, MPI_Recv_c, whole, large_number, or MPI_Sendrecv;
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
        let (place, room, end) = (word(copy.as_mut_ptr()), copy.len(), word(&raw mut filled));
        let origin = word(&raw const size);
        let seen = (buffer == 0).then(|| seen_from(origin, count, datatype)).flatten();
        if buffer == 0 && seen.is_none() && !is_open_mpi() && number(count) > 0 {
            // Refused, as there is nothing at that address.
            let call = pmpi!(Sendrecv_replace: fn(Word, Word, Word, Word, Word, Word, Word, Word, Word));
            return call(buffer, count, datatype, to, send_tag, from, receive_tag, comm, status);
        }
        let code = match seen {
            Some(seen) => pack(origin, 1, seen.0, place, room, end, comm),
            None => pack(buffer, count, datatype, place, room, end, comm),
        };
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

/// One whose count is no `int` is not worth a copy: it is as it is.
///
/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case, clippy::too_many_arguments)]
pub unsafe extern "C" fn MPI_Sendrecv_replace_c(
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
    let small = as_int(count);
    // SAFETY: the caller's arguments.
    unsafe {
        if small == count || !has_large_counts() {
            return MPI_Sendrecv_replace(buffer, small, datatype, to, send_tag, from, receive_tag, comm, status);
        }
        let call = pmpi!(Sendrecv_replace_c: fn(Word, Word, Word, Word, Word, Word, Word, Word, Word));
        call(buffer, count, datatype, to, send_tag, from, receive_tag, comm, status)
    }
}

/// A datatype of ours.
struct Made(Word);

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: it was made, and what used it has ended.
        unsafe { pmpi!(Type_free: fn(Word))(word(&raw mut self.0)) };
    }
}

/// What lies at absolute addresses (the buffer is `MPI_BOTTOM`), as it is seen from an origin: MPICH's `MPI_Pack` takes
/// no null pointer as a buffer. None where that is not to be had, and for a datatype that MPI has by name: that has no
/// addresses, and a null pointer is refused.
fn seen_from(origin: Word, count: Word, datatype: Word) -> Option<Made> {
    // How many integers, addresses and datatypes it was made of, and how.
    let mut parts: [c_int; 4] = [0; 4];
    let [integers, addresses, types, how] = parts.each_mut().map(|part| word(part));
    let envelope = pmpi!(Type_get_envelope: fn(Word, Word, Word, Word, Word));
    // SAFETY: the caller's datatype, and places for the answers.
    let code = unsafe { envelope(datatype, integers, addresses, types, how) };
    if code != abi::SUCCESS || parts[..3] == [0; 3] {
        return None;
    }
    let (length, displacement) = (count as u32 as c_int, origin.wrapping_neg());
    let mut made: Word = 0;
    let make = pmpi!(Type_create_hindexed: fn(Word, Word, Word, Word, Word));
    // SAFETY: one block of so many of the caller's, its displacement, and a place for the answer.
    let code =
        unsafe { make(1, word(&raw const length), word(&raw const displacement), datatype, word(&raw mut made)) };
    let made = (code == abi::SUCCESS).then_some(Made(made))?;
    // SAFETY: a datatype of ours.
    let code = unsafe { pmpi!(Type_commit: fn(Word))(word(&raw const made.0)) };
    (code == abi::SUCCESS).then_some(made)
}

//! MPI's blocking calls, so that they let other threads run.
//!
//! Source: MPI's profiling interface (each `MPI_X` may be taken over, and is there as `PMPI_X`), and the non-blocking
//! form that the standard has of almost every blocking call. A blocking call here begins the non-blocking one and waits
//! for its end. One of the waiting threads tests for all of them ([`engine`]); the others sleep, under `raddle run` as
//! lightweight threads. Natively a thread that waits in MPI turns round on its core, and hundreds of them stand in each
//! other's way.
//!
//! The library is an ordinary one over threads of the standard library: under `raddle run --mpi` they are lightweight,
//! otherwise kernel threads. It needs no header of an MPI and works with those whose calls look as MPICH's and Open
//! MPI's do ([`abi`]). All ranks of a program must use it or none: collective calls that block do not match those that
//! do not.
//!
//! Reading order: [`abi`], [`waits`], [`engine`], [`led`], [`idle`], [`soon`], [`told`], [`entries`], [`messages`],
//! [`completion`], [`collective`], [`gathered`], [`refusals`], [`channel`], [`known`], [`turns`], [`neighbours`],
//! [`operations`], [`lengths`], [`begun`], [`handlers`], [`world`].

mod abi;
mod begun;
mod channel;
mod collective;
mod completion;
mod engine;
mod entries;
mod gathered;
mod giving_way;
mod handlers;
mod idle;
mod known;
mod led;
mod lengths;
mod messages;
mod neighbours;
mod operations;
mod refusals;
mod soon;
mod told;
mod turns;
mod uncancelled;
mod waits;
mod world;

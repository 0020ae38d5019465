//! Which processors a kernel thread may use, and where its memory comes from.

/// What a kernel thread has that it can be asked for: its processors, and where its memory comes from.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Placing {
    processors: [u64; 128],
    memory: std::ffi::c_int,
    nodes: [u64; 64],
}

/// The calling kernel thread's; none where the kernel does not say.
pub(crate) fn placing() -> Option<Placing> {
    let mut is = Placing { processors: [0; 128], memory: 0, nodes: [0; 64] };
    let (processors, nodes) = (is.processors.as_mut_ptr(), is.nodes.as_mut_ptr());
    let [processors, nodes] = [processors.expose_provenance(), nodes.expose_provenance()];
    let processors = [0, size_of_val(&is.processors), processors, 0, 0, 0];
    let memory = [(&raw mut is.memory).expose_provenance(), nodes, size_of_val(&is.nodes) * 8, 0, 0, 0];
    // SAFETY: both ask for the calling kernel thread's, into places of these sizes. A kernel without memory policies
    // has one for all.
    unsafe {
        raddle_machine::raw::system_call(libc::SYS_get_mempolicy as usize, memory);
        (raddle_machine::raw::system_call(libc::SYS_sched_getaffinity as usize, processors) > 0).then_some(is)
    }
}

//! `pthread_mutex_t`.

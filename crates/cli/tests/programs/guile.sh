# package: guile-3.0
# needs: /usr/bin/guile
# what: threads, futures, a collection
cat >g.scm <<'G'
(use-modules (ice-9 threads) (ice-9 futures))
(display (apply + (par-map (lambda (x) (* x x)) (iota 1000)))) (newline)
(define m (make-mutex)) (define n 0)
(define ts (map (lambda (i) (call-with-new-thread (lambda () (do ((k 0 (+ k 1))) ((= k 200)) (with-mutex m (set! n (+ n 1))))))) (iota 20)))
(for-each join-thread ts) (display n) (newline)
(define (f k) (if (zero? k) '() (cons (make-vector 100 k) (f (- k 1)))))
(display (apply + (map (lambda (t) (join-thread t)) (map (lambda (i) (call-with-new-thread (lambda () (length (f 3000))))) (iota 8))))) (newline)
(gc) (display "collected") (newline)
G
GUILE_AUTO_COMPILE=0 run guile --no-auto-compile g.scm

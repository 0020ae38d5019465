# package: sbcl
# needs: /usr/bin/sbcl
# what: threads that allocate while the collector stops the world
cat >s.lisp <<'S'
(defun work (n) (let ((s 0)) (dotimes (i 300) (setf s (+ s (length (make-list 1000 :initial-element i))))) (+ s n)))
(let ((ts (loop for n below 16 collect (let ((n n)) (sb-thread:make-thread (lambda () (work n)))))))
  (print (reduce #'+ (mapcar #'sb-thread:join-thread ts))))
(sb-ext:gc :full t)
(let ((m (sb-thread:make-mutex)) (n 0))
  (mapc #'sb-thread:join-thread (loop repeat 20 collect (sb-thread:make-thread (lambda () (dotimes (i 100) (sb-thread:with-mutex (m) (incf n)))))))
  (print n))
(terpri)
S
run sbcl --script s.lisp

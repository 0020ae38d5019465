# package: python3-numpy
# needs: /usr/bin/python3 /usr/lib/python3/dist-packages/numpy
# what: matrices by OpenBLAS, or BLAS, in 8 threads
cat >n.py <<'P'
import numpy as np, threading
def work(n, out):
    a = np.arange(200 * 200, dtype=np.float64).reshape(200, 200) % (n + 3)
    out[n] = [float((a @ a).sum()), float(np.sort(a.ravel())[777]), round(abs(np.fft.fft(a[0])).sum(), 6)]
out = {}
ts = [threading.Thread(target=work, args=(n, out)) for n in range(8)]
[t.start() for t in ts]; [t.join() for t in ts]
for n in sorted(out): print(n, out[n])
print(round(float(np.linalg.det(np.eye(50) * 1.1)), 6))
P
run /usr/bin/python3 n.py

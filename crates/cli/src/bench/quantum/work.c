/* Some 0.2 ms of C: a product of matrices, and a hash over their bytes. */
int raddle_bench_quantum(int count, char **arguments, unsigned long (*work)(unsigned long));

enum { SIDE = 48 };

static unsigned long work(unsigned long seed) {
    double a[SIDE][SIDE], b[SIDE][SIDE], c[SIDE][SIDE];
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            a[i][j] = (double)(seed >> 40);
            b[j][i] = (double)(seed >> 50);
        }
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            c[i][j] = 0;
            for (int k = 0; k < SIDE; k++)
                c[i][j] += a[i][k] * b[k][j];
        }
    unsigned long hash = seed;
    const unsigned char *bytes = (const unsigned char *)c;
    for (unsigned long i = 0; i < sizeof c; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash;
}

int main(int count, char **arguments) {
    return raddle_bench_quantum(count, arguments, work);
}

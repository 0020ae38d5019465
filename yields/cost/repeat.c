/* Runs a program's work as often as its second argument says: the program's own `main` has another name there. */
#include <stdlib.h>
int work_main(int count, char **arguments);
int main(int count, char **arguments) {
    for (long times = count > 2 ? atol(arguments[2]) : 1; times > 0; times--)
        work_main(count, arguments);
    return 0;
}

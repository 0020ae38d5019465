/* Small loops, each run by its name: cost.sh counts their instructions with and without checks. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define N 96
__attribute__((noinline)) void matmul(double *a,double*b,double*c){for(int i=0;i<N;i++)for(int j=0;j<N;j++){double s=0;for(int k=0;k<N;k++)s+=a[i*N+k]*b[k*N+j];c[i*N+j]=s;}}
__attribute__((noinline)) int mandel(int w){int t=0;for(int y=0;y<w;y++)for(int x=0;x<w;x++){double cr=x*3.0/w-2,ci=y*2.0/w-1,zr=0,zi=0;int k=0;while(k<500&&zr*zr+zi*zi<4){double n=zr*zr-zi*zi+cr;zi=2*zr*zi+ci;zr=n;k++;}t+=k;}return t;}
static const uint32_t K[64]={0x428a2f98,0x71374491,0xb5c0fbcf,0xe9b5dba5,0x3956c25b,0x59f111f1,0x923f82a4,0xab1c5ed5,0xd807aa98,0x12835b01,0x243185be,0x550c7dc3,0x72be5d74,0x80deb1fe,0x9bdc06a7,0xc19bf174,0xe49b69c1,0xefbe4786,0x0fc19dc6,0x240ca1cc,0x2de92c6f,0x4a7484aa,0x5cb0a9dc,0x76f988da,0x983e5152,0xa831c66d,0xb00327c8,0xbf597fc7,0xc6e00bf3,0xd5a79147,0x06ca6351,0x14292967,0x27b70a85,0x2e1b2138,0x4d2c6dfc,0x53380d13,0x650a7354,0x766a0abb,0x81c2c92e,0x92722c85,0xa2bfe8a1,0xa81a664b,0xc24b8b70,0xc76c51a3,0xd192e819,0xd6990624,0xf40e3585,0x106aa070,0x19a4c116,0x1e376c08,0x2748774c,0x34b0bcb5,0x391c0cb3,0x4ed8aa4a,0x5b9cca4f,0x682e6ff3,0x748f82ee,0x78a5636f,0x84c87814,0x8cc70208,0x90befffa,0xa4506ceb,0xbef9a3f7,0xc67178f2};
#define R(x,n) ((x>>n)|(x<<(32-n)))
__attribute__((noinline)) void sha(uint32_t*h,const uint8_t*p){uint32_t w[64];for(int i=0;i<16;i++)w[i]=(uint32_t)p[4*i]<<24|p[4*i+1]<<16|p[4*i+2]<<8|p[4*i+3];for(int i=16;i<64;i++){uint32_t s0=R(w[i-15],7)^R(w[i-15],18)^(w[i-15]>>3),s1=R(w[i-2],17)^R(w[i-2],19)^(w[i-2]>>10);w[i]=w[i-16]+s0+w[i-7]+s1;}uint32_t a=h[0],b=h[1],c=h[2],d=h[3],e=h[4],f=h[5],g=h[6],hh=h[7];for(int i=0;i<64;i++){uint32_t S1=R(e,6)^R(e,11)^R(e,25),ch=(e&f)^(~e&g),t1=hh+S1+ch+K[i]+w[i],S0=R(a,2)^R(a,13)^R(a,22),mj=(a&b)^(a&c)^(b&c),t2=S0+mj;hh=g;g=f;f=e;e=d+t1;d=c;c=b;b=a;a=t1+t2;}h[0]+=a;h[1]+=b;h[2]+=c;h[3]+=d;h[4]+=e;h[5]+=f;h[6]+=g;h[7]+=hh;}
__attribute__((noinline)) uint64_t collatz(uint64_t m){uint64_t best=0;for(uint64_t i=1;i<m;i++){uint64_t n=i,c=0;while(n!=1){n=n&1?3*n+1:n/2;c++;}if(c>best)best=c;}return best;}
struct node{struct node*next;int v;};
__attribute__((noinline)) struct node*chase(struct node*p,long n){while(n--)p=p->next;return p;}
__attribute__((noinline)) long chase2(struct node*p){long s=0;while(p){s+=p->v;p=p->next;}return s;}
__attribute__((noinline)) int sieve(char*f,int n){memset(f,1,n);int c=0;for(int i=2;i<n;i++)if(f[i]){c++;for(long j=(long)i*i;j<n;j+=i)f[j]=0;}return c;}
__attribute__((noinline)) int words(const char*s){int n=0;while(*s){while(*s==' ')s++;if(!*s)break;n++;while(*s&&*s!=' ')s++;}return n;}
__attribute__((noinline)) int fib(int n){return n<2?n:fib(n-1)+fib(n-2);}
int main(int c,char**v){const char*w=v[1];
 if(!strcmp(w,"matmul")){static double a[N*N],b[N*N],x[N*N];for(int i=0;i<N*N;i++)a[i]=b[i]=i;matmul(a,b,x);printf("%g\n",x[77]);}
 if(!strcmp(w,"mandel"))printf("%d\n",mandel(64));
 if(!strcmp(w,"sha")){uint32_t h[8]={1,2,3};uint8_t p[64]={7};for(int i=0;i<2000;i++)sha(h,p);printf("%u\n",h[0]);}
 if(!strcmp(w,"collatz"))printf("%lu\n",collatz(20000));
 if(!strcmp(w,"chase")||!strcmp(w,"chase2")){static struct node n[1000];for(int i=0;i<1000;i++)n[i].next=&n[(i*7+1)%1000],n[i].v=i;if(w[5]){for(int i=0;i<1000;i++)n[i].next=i<999?&n[i+1]:0;long s=0;for(int i=0;i<1000;i++)s+=chase2(n+(s&1));printf("%ld\n",s);}else printf("%d\n",chase(n,1000000)->v);}
 if(!strcmp(w,"sieve")){char*f=malloc(500000);printf("%d\n",sieve(f,500000));}
 if(!strcmp(w,"words")){char*s=malloc(400001);unsigned r=1;for(int i=0;i<400000;i++){r=r*1103515245+12345;s[i]=(r>>16)%6?'a':' ';}s[400000]=0;printf("%d\n",words(s));}
 if(!strcmp(w,"fib"))printf("%d\n",fib(25));
 return 0;
}

#include <portcullis.h>
#include "guest/lib/domain.h"
static inline int64_t int3_call(uint64_t n,uint64_t a,uint64_t b){int64_t r;asm volatile("int3":"=a"(r):"a"(n),"D"(a),"S"(b):"rcx","r11","memory");return r;}
int main(int c,char**v){(void)c;(void)v;
 for(int k=0;k<3;k++){
 uint64_t t=time_now();for(int i=0;i<2000;i++)system_call(0x1007,0,0);uint64_t a=(time_now()-t)/2000;
 t=time_now();for(int i=0;i<2000;i++)int3_call(0x1007,0,0);uint64_t b=(time_now()-t)/2000;
 t=time_now();for(int i=0;i<2000;i++)int3_call(0x1001,0,0);uint64_t d=(time_now()-t)/2000;
 log_line("syscall %llu int3 %llu accept %llu",(unsigned long long)a,(unsigned long long)b,(unsigned long long)d);}
 return 0;}

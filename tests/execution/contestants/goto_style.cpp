#include <cstdio>
#include <cmath>
int n,i,j,k,s;
int main()
{
    for(;;)
    {
        if(scanf("%d",&n)!=1||n==0) goto end;
        s=0;
        for(i=1;i<=n;i++) for(j=i;j*j<=n*n;j++)
        {
            k=(int)std::sqrt((double)(i*i+j*j));
            if(k>n) break;
            if(k*k==i*i+j*j) s++;
        }
        printf("Case %d: %d\n",n,s);
    }
end:
    return 0;
}
/* cases
wrong: if(k>n) break; >>> if(k>=n) break;
case: 5|13|0 => Case 5: 1|Case 13: 3
*/

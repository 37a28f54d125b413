#include<iostream>
#include<cstdio>
using namespace std;
long long a,b,c;
main(){
	cin>>a>>b;
	while(b){c=a%b;a=b;b=c;}
	cout<<a;
}
/* cases
wrong: cout<<a; >>> cout<<b;
case: 84 36 => 12
*/

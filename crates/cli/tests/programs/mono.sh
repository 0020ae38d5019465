# package: mono-runtime
# needs: /usr/bin/mono /usr/bin/mcs
# seconds=200
# what: threads and a collection
printf 'using System;using System.Threading;class P{static int n;static void Main(){var t=new Thread[40];for(int i=0;i<40;i++){t[i]=new Thread(()=>{for(int k=0;k<200;k++){var b=new byte[1000];Interlocked.Add(ref n,b.Length);}});t[i].Start();}foreach(var x in t)x.Join();GC.Collect();Console.WriteLine(n);}}' >p.cs
mcs p.cs
run mono p.exe

# package: gnat
# needs: /usr/bin/gnatmake
# what: tasks, rendezvous, a protected object, time limits, a call that is aborted
cat >t.adb <<'A'
with Ada.Text_IO; use Ada.Text_IO;
procedure T is
   protected Counter is
      procedure Inc;
      entry Full;
   private
      N : Integer := 0;
   end Counter;
   protected body Counter is
      procedure Inc is begin N := N + 1; end Inc;
      entry Full when N >= 8000 is begin Put_Line (Integer'Image (N)); end Full;
   end Counter;
   task type Worker is entry Start; entry Stop; end Worker;
   task body Worker is
   begin
      accept Start;
      for I in 1 .. 1000 loop
         Counter.Inc;
         if I mod 100 = 0 then delay 0.001; end if;
      end loop;
      accept Stop;
   end Worker;
   Workers : array (1 .. 8) of Worker;
   task Waits is entry Start; entry Never; entry Done; end Waits;
   task body Waits is
   begin
      accept Start;
      select accept Never; or delay 0.05; Put_Line ("nobody came"); end select;
      accept Done;
      loop delay 1.0; end loop;
   end Waits;
begin
   for W of Workers loop W.Start; end loop;
   Counter.Full;
   for W of Workers loop W.Stop; end loop;
   Waits.Start;
   Waits.Done;
   select delay 0.05; Put_Line ("aborted"); then abort loop delay 0.001; end loop; end select;
   abort Waits;
   declare
      task Fails;
      task body Fails is begin raise Constraint_Error; exception when others => Put_Line ("raised"); end Fails;
   begin null; end;
end T;
A
gnatmake -q t.adb
run ./t

; x ** n of integers by repeated squaring, wrapping around; 1 for a negative n.
;
; `ModuleText.integer_power` writes it into the modules of kernels, for other types with `i32`
; replaced, and for unsigned ones with `sgt` replaced by `ne`.

define internal i32 @lw_ipow_int32(i32 %x, i32 %n) nounwind {
entry:
  br label %loop
loop:
  %r = phi i32 [ 1, %entry ], [ %r1, %more ]
  %b = phi i32 [ %x, %entry ], [ %b1, %more ]
  %e = phi i32 [ %n, %entry ], [ %e1, %more ]
  %go = icmp sgt i32 %e, 0
  br i1 %go, label %more, label %done
more:
  %low = and i32 %e, 1
  %odd = icmp ne i32 %low, 0
  %m = mul i32 %r, %b
  %r1 = select i1 %odd, i32 %m, i32 %r
  %b1 = mul i32 %b, %b
  %e1 = lshr i32 %e, 1
  br label %loop
done:
  ret i32 %r
}

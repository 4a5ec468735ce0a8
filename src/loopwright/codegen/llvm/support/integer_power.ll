; x ** n of integers by repeated squaring, wrapping around; for a negative n rounded toward zero, 0 of 0.
;
; `ModuleText.integer_power` writes it into the modules of kernels, for other types with `i32`
; replaced, and for unsigned ones with `slt` replaced by `ult`, which nothing is below 0.

define internal i32 @lw_ipow_int32(i32 %x, i32 %n) nounwind {
entry:
  %negative = icmp slt i32 %n, 0
  %minus = sub i32 0, %n
  %e0 = select i1 %negative, i32 %minus, i32 %n
  %above = add i32 %x, 1
  %unit = icmp ult i32 %above, 3
  %whole = select i1 %unit, i32 %x, i32 0
  %b0 = select i1 %negative, i32 %whole, i32 %x
  br label %loop
loop:
  %r = phi i32 [ 1, %entry ], [ %r1, %more ]
  %b = phi i32 [ %b0, %entry ], [ %b1, %more ]
  %e = phi i32 [ %e0, %entry ], [ %e1, %more ]
  %go = icmp ne i32 %e, 0
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

; A 2x2 convolution of a padded image, (2, 7, 6) int32 by (4, 2, 2, 2) to (4, 8, 7), before GVN. With phis
; of operations LLVM 22's NewGVN gives wrong sums.
@zeros = internal constant [128 x i8] zeroinitializer, align 64
define void @conv(ptr %image, ptr %weight, ptr %sums) {
entry:
  br label %loop.77

loop.77:
  %i.79 = phi i32 [ %i.80, %done.82 ], [ 0, %entry ]
  br label %loop.81

loop.81:
  %i.83 = phi i32 [ 0, %loop.77 ], [ %i.84, %done.86 ]
  br label %loop.85

loop.85:
  %i.87 = phi i32 [ 0, %loop.81 ], [ %i.88, %done.90 ]
  br label %loop.89

loop.89:
  %i.91 = phi i32 [ 0, %loop.85 ], [ %i.92, %endif.98 ]
  %v93 = icmp eq i32 %i.91, 0
  br i1 %v93, label %then.97, label %endif.98

then.97:
  %v99 = mul nuw nsw i32 %i.79, 56
  %v100 = mul nuw nsw i32 %i.83, 7
  %v101 = add nuw nsw i32 %v99, %v100
  %v102 = add nuw nsw i32 %v101, %i.87
  %v103 = zext nneg i32 %v102 to i64
  %v104 = getelementptr i32, ptr %sums, i64 %v103
  store i32 0, ptr %v104, align 4
  br label %endif.98

endif.98:
  %v105 = mul nuw nsw i32 %i.79, 56
  %v106 = mul nuw nsw i32 %i.83, 7
  %v107 = add nuw nsw i32 %v105, %v106
  %v108 = add nuw nsw i32 %v107, %i.87
  %v109 = zext nneg i32 %v108 to i64
  %v110 = getelementptr i32, ptr %sums, i64 %v109
  %v111 = load i32, ptr %v110, align 4
  %0 = add nsw i32 %i.83, -1
  %v115 = icmp ult i32 %0, 7
  %1 = add nsw i32 %i.87, -1
  %2 = icmp ult i32 %1, 6
  %v120 = and i1 %v115, %2
  %v121 = mul nuw nsw i32 %i.91, 42
  %v122 = mul nuw nsw i32 %i.83, 6
  %v123 = add nuw nsw i32 %v121, %v122
  %v126 = add nuw nsw i32 %v123, %i.87
  %3 = zext nneg i32 %v126 to i64
  %4 = getelementptr i32, ptr %image, i64 %3
  %v130 = getelementptr i8, ptr %4, i64 -28
  %v131 = select i1 %v120, ptr %v130, ptr @zeros
  %v132 = load i32, ptr %v131, align 4
  %v133 = shl nsw i32 %i.79, 3
  %v134 = shl nsw i32 %i.91, 2
  %v135 = add nuw nsw i32 %v133, %v134
  %v137 = zext nneg i32 %v135 to i64
  %v138 = getelementptr i32, ptr %weight, i64 %v137
  %v139 = load i32, ptr %v138, align 4
  %v140 = mul i32 %v132, %v139
  %v141 = add i32 %v111, %v140
  store i32 %v141, ptr %v110, align 4
  %v146 = load i32, ptr %v110, align 4
  %5 = icmp samesign ult i32 %i.87, 6
  %v151 = and i1 %v115, %5
  %6 = zext nneg i32 %v126 to i64
  %7 = getelementptr i32, ptr %image, i64 %6
  %v155 = getelementptr i8, ptr %7, i64 -24
  %v156 = select i1 %v151, ptr %v155, ptr @zeros
  %v157 = load i32, ptr %v156, align 4
  %8 = zext nneg i32 %v135 to i64
  %9 = getelementptr i32, ptr %weight, i64 %8
  %v160 = getelementptr i8, ptr %9, i64 4
  %v161 = load i32, ptr %v160, align 4
  %v162 = mul i32 %v157, %v161
  %v163 = add i32 %v146, %v162
  store i32 %v163, ptr %v110, align 4
  %v168 = load i32, ptr %v110, align 4
  %v172 = icmp samesign ult i32 %i.83, 7
  %10 = add nsw i32 %i.87, -1
  %11 = icmp ult i32 %10, 6
  %v174 = and i1 %v172, %11
  %v176 = add nuw nsw i32 %v123, 4
  %v177 = add nuw nsw i32 %v176, %i.87
  %12 = zext nneg i32 %v177 to i64
  %13 = getelementptr i32, ptr %image, i64 %12
  %v181 = getelementptr i8, ptr %13, i64 -20
  %v182 = select i1 %v174, ptr %v181, ptr @zeros
  %v183 = load i32, ptr %v182, align 4
  %14 = zext nneg i32 %v135 to i64
  %15 = getelementptr i32, ptr %weight, i64 %14
  %v186 = getelementptr i8, ptr %15, i64 8
  %v187 = load i32, ptr %v186, align 4
  %v188 = mul i32 %v183, %v187
  %v189 = add i32 %v168, %v188
  store i32 %v189, ptr %v110, align 4
  %v193 = load i32, ptr %v110, align 4
  %16 = icmp samesign ult i32 %i.87, 6
  %v195 = and i1 %v172, %16
  %v197 = add nuw i32 %v123, %i.87
  %v198 = sext i32 %v197 to i64
  %v199 = getelementptr i32, ptr %image, i64 %v198
  %v200 = select i1 %v195, ptr %v199, ptr @zeros
  %v201 = load i32, ptr %v200, align 4
  %17 = zext nneg i32 %v135 to i64
  %18 = getelementptr i32, ptr %weight, i64 %17
  %v204 = getelementptr i8, ptr %18, i64 12
  %v205 = load i32, ptr %v204, align 4
  %v206 = mul i32 %v201, %v205
  %v207 = add i32 %v193, %v206
  store i32 %v207, ptr %v110, align 4
  %i.92 = add nuw nsw i32 %i.91, 1
  %v208 = icmp eq i32 %i.91, 0
  br i1 %v208, label %loop.89, label %done.90

done.90:
  %i.88 = add nuw nsw i32 %i.87, 1
  %v209 = icmp samesign ult i32 %i.87, 6
  br i1 %v209, label %loop.85, label %done.86

done.86:
  %i.84 = add nuw nsw i32 %i.83, 1
  %v210 = icmp samesign ult i32 %i.83, 7
  br i1 %v210, label %loop.81, label %done.82

done.82:
  %i.80 = add nuw nsw i32 %i.79, 1
  %v211 = icmp samesign ult i32 %i.79, 3
  br i1 %v211, label %loop.77, label %done

done:
  ret void
}

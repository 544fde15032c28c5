#include "textflag.h"

// func sumWide(b []byte) uint64
//
// Each 64-bit lane of Y0 and Y2 adds up what is loaded, modulo 2^64, and the lanes of Y1
// and Y3 the upper halves alone, which do not overflow. So the sum of the lower halves is
// Y0 less the sum of the upper ones in their place.
TEXT ·sumWide(SB), NOSPLIT, $0-32
	MOVQ  b_base+0(FP), SI
	MOVQ  b_len+8(FP), CX
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3

loop:
	VMOVDQU (SI), Y4
	VMOVDQU 32(SI), Y5
	VMOVDQU 64(SI), Y6
	VMOVDQU 96(SI), Y7
	VPADDQ  Y4, Y0, Y0
	VPSRLQ  $32, Y4, Y4
	VPADDQ  Y5, Y2, Y2
	VPSRLQ  $32, Y5, Y5
	VPADDQ  Y6, Y0, Y0
	VPSRLQ  $32, Y6, Y6
	VPADDQ  Y7, Y2, Y2
	VPSRLQ  $32, Y7, Y7
	VPADDQ  Y4, Y1, Y1
	VPADDQ  Y5, Y3, Y3
	VPADDQ  Y6, Y1, Y1
	VPADDQ  Y7, Y3, Y3
	ADDQ    $128, SI
	SUBQ    $128, CX
	JNZ     loop

	VPADDQ       Y2, Y0, Y0
	VPADDQ       Y3, Y1, Y1
	VPSLLQ       $32, Y1, Y2
	VPSUBQ       Y2, Y0, Y0
	VPADDQ       Y1, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPADDQ       X1, X0, X0
	VPSRLDQ      $8, X0, X1
	VPADDQ       X1, X0, X0
	VMOVQ        X0, AX
	VZEROUPPER
	MOVQ         AX, ret+24(FP)
	RET

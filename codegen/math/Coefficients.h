// Written by derive/coefficients.py: do not edit.
// Ascending powers. `err`: the fit's own error, relative to the result.
#pragma once

namespace knapper::vecmath {

/// exp(r) by powers of r, |r| <= ln2/2. err 3.14e-9.
inline constexpr double kExpF32[] = {0x1.0000000000000p+0, 0x1.0000000000000p+0,
                                     0x1.fffffc0000000p-2, 0x1.5554940000000p-3,
                                     0x1.5558be0000000p-5, 0x1.1238560000000p-7,
                                     0x1.6a3d060000000p-10};

/// 2^r by powers of r, |r| <= 1/2. err 2.99e-9.
inline constexpr double kExp2F32[] = {
    0x1.0000000000000p+0, 0x1.62e4300000000p-1, 0x1.ebfbdc0000000p-3,
    0x1.c6af7c0000000p-5, 0x1.3b2de00000000p-7, 0x1.5f08300000000p-10,
    0x1.416b500000000p-13};

/// 2^r by powers of r, |r| <= 1/2. err 9.32e-8.
inline constexpr double kExp2ShortF32[] = {
    0x1.0000000000000p+0, 0x1.62e42a0000000p-1, 0x1.ebf9c20000000p-3,
    0x1.c6b6da0000000p-5, 0x1.3ce8b60000000p-7, 0x1.5bd9800000000p-10};

/// 2^r by powers of r, |r| <= 1/64. err 5.34e-8.
inline constexpr double kExp2NearF32[] = {
    0x1.0000000000000p+0, 0x1.62e5840000000p-1, 0x1.ebfbde0000000p-3};

/// (exp(r)-1-r)/r^2 by powers of r, |r| <= ln2/2. err 4.33e-10.
inline constexpr double kExpm1F32[] = {
    0x1.0000000000000p-1, 0x1.5555540000000p-3,  0x1.5554f80000000p-5,
    0x1.1112dc0000000p-7, 0x1.6d3a3a0000000p-10, 0x1.9e69d60000000p-13};

/// (2^r-1)/r by powers of r, |r| <= 1/2. err 2.75e-9.
inline constexpr double kExp2m1F32[] = {
    0x1.62e4300000000p-1, 0x1.ebfbe00000000p-3,  0x1.c6b0440000000p-5,
    0x1.3b2a660000000p-7, 0x1.5de9620000000p-10, 0x1.4400f20000000p-13,
    0x1.7f6efe0000000p-17};

/// (log(1+f)-f+f^2/2)/f^3 by powers of f, sqrt(1/2) <= 1+f <= sqrt(2).
/// err 5.85e-9.
inline constexpr double kLogF32[] = {
    0x1.5555540000000p-2,  -0x1.0002260000000p-2, 0x1.99a01c0000000p-3,
    -0x1.54728a0000000p-3, 0x1.22d92e0000000p-3,  -0x1.0d82440000000p-3,
    0x1.055ecc0000000p-3,  -0x1.38c9e00000000p-4};

/// (sin(r)-r)/r^3 by powers of r^2, |r| <= pi/4. err 1.63e-10.
inline constexpr double kSinF32[] = {
    -0x1.5555560000000p-3, 0x1.1111740000000p-7, -0x1.a059560000000p-13,
    0x1.7c2d960000000p-19};

/// (cos(r)-1+r^2/2)/r^4 by powers of r^2, |r| <= pi/4. err 1.18e-10.
inline constexpr double kCosF32[] = {
    0x1.55554a0000000p-5, -0x1.6c0c280000000p-10, 0x1.99e80c0000000p-16};

/// (atan(x)-x)/x^3 by powers of x^2, |x| <= 1. err 2.62e-9.
inline constexpr double kAtanF32[] = {
    -0x1.55553e0000000p-2, 0x1.9991e40000000p-3,  -0x1.2420860000000p-3,
    0x1.c08c4e0000000p-4,  -0x1.58091a0000000p-4, 0x1.da29f60000000p-5,
    -0x1.fd7dae0000000p-6, 0x1.64240e0000000p-7,  -0x1.d357e00000000p-10};

/// log2(erfc(a))/a by powers of a, 0 <= a <= 4. err 5.6e-9.
inline constexpr double kErfF32[] = {
    -0x1.a0be840000000p+0, -0x1.d63ece0000000p-1,  -0x1.2fa90a0000000p-3,
    0x1.c436860000000p-6,  0x1.475c740000000p-12,  -0x1.4968380000000p-9,
    0x1.034fae0000000p-10, -0x1.97f75e0000000p-13, 0x1.d6dbe60000000p-17,
    0x1.a1d7720000000p-20, -0x1.21145e0000000p-22};

/// log2(erfc(a/sqrt(2))/2) by powers of a, 0 <= a <= 6. err 1.61e-8.
inline constexpr double kGeluF32[] = {
    -0x1.0000000000000p+0,  -0x1.26aed40000000p+0, -0x1.d63ac20000000p-2,
    -0x1.ae0a820000000p-5,  0x1.ced2880000000p-8,  -0x1.1d1b5c0000000p-13,
    -0x1.874c7e0000000p-13, 0x1.4b0a620000000p-15, -0x1.7d75e00000000p-19};

/// log2(erfc(a/sqrt(2))/2) by powers of a, 0 <= a <= 6. err 4.49e-5.
inline constexpr double kGelu16[] = {
    -0x1.00043e0000000p+0, -0x1.2671d60000000p+0,  -0x1.d857980000000p-2,
    -0x1.a34fb80000000p-5, 0x1.d792140000000p-8,   -0x1.4064e00000000p-11,
    0x1.81b6000000000p-16};

/// (sin(r)-r)/r^3 by powers of r^2, |r| <= pi/2. err 1.11e-6.
inline constexpr double kSin16[] = {-0x1.5551120000000p-3, 0x1.1071380000000p-7,
                                    -0x1.84dc3a0000000p-13};

/// log(1+u)/u by powers of u, 0 <= u <= 1. err 1.27e-6.
inline constexpr double kLog1p16[] = {
    0x1.ffffd60000000p-1,  -0x1.ffddf40000000p-2, 0x1.530b660000000p-2,
    -0x1.e162780000000p-3, 0x1.31a71a0000000p-3,  -0x1.100c7c0000000p-4,
    0x1.cf895e0000000p-7};

/// (exp(r)-1-r)/r^2 by powers of r, |r| <= 1/4. err 5.57e-6.
inline constexpr double kExpm1_16[] = {
    0x1.0000960000000p-1, 0x1.5637a00000000p-3, 0x1.5517c60000000p-5};

/// (exp(r)-1-r)/r^2 by powers of r, |r| <= ln2/2. err 1.19e-18.
inline constexpr double kExpm1F64[] = {
    0x1.0000000000000p-1,  0x1.5555555555555p-3,  0x1.5555555555559p-5,
    0x1.1111111111118p-7,  0x1.6c16c16c14a7ap-10, 0x1.a01a01a01462fp-13,
    0x1.a01a01aebe5c6p-16, 0x1.71de3a74c2e34p-19, 0x1.27e4c9dbb1f30p-22,
    0x1.ae63b7400b2a6p-26, 0x1.1f8eec1ed0e34p-29, 0x1.627d81832097fp-33};

/// (log((1+s)/(1-s))-2s)/s^3 by powers of s^2, |s| <= 0.1716. err 5.82e-19.
inline constexpr double kLogF64[] = {
    0x1.5555555555555p-1, 0x1.9999999999dfep-2, 0x1.249249242b50cp-2,
    0x1.c71c7258ec51bp-3, 0x1.745cde3ade113p-3, 0x1.3b20aaaef6dc6p-3,
    0x1.0f5cdc8fd4c6dp-3, 0x1.0f6261347bd7cp-3};

/// ((log((1+s)/(1-s))-2s)/s^3-2/3)/s^2 by powers of s^2, |s| <= 0.1716.
/// err 2.2e-20.
inline constexpr double kLogSumF64[] = {
    0x1.9999999999996p-2, 0x1.2492492493034p-2, 0x1.c71c71c5808a5p-3,
    0x1.745d183242fadp-3, 0x1.3b1362ba2b936p-3, 0x1.1120b50403d0bp-3,
    0x1.de33899a45e1fp-4, 0x1.eb105177677cbp-4};

/// (sin(r)-r)/r^3 by powers of r^2, |r| <= pi/4. err 5.54e-18.
inline constexpr double kSinF64[] = {
    -0x1.5555555555555p-3, 0x1.111111111110bp-7,   -0x1.a01a01a018ae9p-13,
    0x1.71de3a5339e1fp-19, -0x1.ae645298d8a96p-26, 0x1.61209312d1a24p-33,
    -0x1.aaa5751bafcc9p-41};

/// (cos(r)-1+r^2/2)/r^4 by powers of r^2, |r| <= pi/4. err 8.61e-19.
inline constexpr double kCosF64[] = {
    0x1.5555555555555p-5,   -0x1.6c16c16c16c10p-10, 0x1.a01a01a018deep-16,
    -0x1.27e4fb75fdc4fp-22, 0x1.1eed8ca4047abp-29,  -0x1.939338aa0f6c5p-37,
    0x1.aac5dcad761c0p-45};

/// (atan(x)-x)/x^3 by powers of x^2, |x| <= 1. err 3.04e-18.
inline constexpr double kAtanF64[] = {
    -0x1.5555555555554p-2,  0x1.9999999999730p-3,  -0x1.24924924867f2p-3,
    0x1.c71c71c36a34fp-4,   -0x1.745d16ebf5cc2p-4, 0x1.3b13ab8b6de15p-4,
    -0x1.1110cfc977deep-4,  0x1.e1dd8d3555d8cp-5,  -0x1.af0c5c36fda7ap-5,
    0x1.858a5d53bbb16p-5,   -0x1.61f0dc35f723dp-5, 0x1.406d3c2c99177p-5,
    -0x1.1c2a624b75ab5p-5,  0x1.e0acb6d40c51cp-6,  -0x1.7665b1e93371ep-6,
    0x1.02353271dbddcp-6,   -0x1.2ea2001751e80p-7, 0x1.20773ebd6180cp-8,
    -0x1.a8b0cbad53f27p-10, 0x1.c1839487ffe34p-12, -0x1.2ec8c5b6a781cp-14,
    0x1.84802f5a045b0p-18};

/// erf(x)/x by powers of x^2, |x| <= 1. err 3.8e-17.
inline constexpr double kErfF64[] = {
    0x1.20dd750429b6dp+0,   -0x1.812746b0379c2p-2,  0x1.ce2f21a041017p-4,
    -0x1.b82ce312062a0p-6,  0x1.565bccfa9a534p-8,   -0x1.c02db072ee008p-11,
    0x1.f9a2bf737370cp-14,  -0x1.f4ca949255d74p-17, 0x1.b9827adc7d2b7p-20,
    -0x1.5c16e1bea7d0ap-23, 0x1.d7848af9124e3p-27,  -0x1.acdfe199666a3p-31};

/// (1+2x)exp(x^2)erfc(x) by powers of (x-4)/(x+4), 0 <= x <= 28. err 6.69e-17.
inline constexpr double kErfcF64[] = {
    0x1.3ba5916e9fd7fp+0,   -0x1.1df1ad154a29cp-3,  0x1.f7f5df66fd77bp-7,
    0x1.16ecefcfa5fe0p-4,   -0x1.9ddb23c3e8c79p-4,  0x1.7fee004df7644p-4,
    -0x1.0fb06dfe562fap-4,  0x1.3079edf9e6b06p-5,   -0x1.09623880e113ap-6,
    0x1.49c67195cf869p-8,   -0x1.8d4a9f9f4f333p-11, -0x1.a1de85e363c85p-13,
    0x1.3be0ce26d3118p-13,  -0x1.9969afa529facp-16, -0x1.78a7bd29d88d9p-17,
    0x1.7fada73e06c7ep-18,  0x1.44177be4afb69p-22,  -0x1.bfdecd602b83ep-21,
    0x1.0c66bb131a515p-24,  0x1.ec197d1d2f04ap-24,  -0x1.0c9aafeaa7538p-27,
    -0x1.cc62e97f18741p-27, -0x1.d7c45b3bfeb76p-30};

} // namespace knapper::vecmath

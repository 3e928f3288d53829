import Glibc

/// A normal deviate (Box and Muller).
func gaussian(_ random: inout some RandomNumberGenerator) -> Double {
  let u = 1 - Double.random(in: 0..<1, using: &random)
  let v = Double.random(in: 0..<1, using: &random)
  return Glibc.sqrt(-2 * Glibc.log(u)) * Glibc.cos(2 * .pi * v)
}

func exponential(_ value: Double) -> Double { Glibc.exp(value) }

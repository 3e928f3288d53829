/// Faults put into the product on purpose, to see that they are found.
package enum Sabotage: String, Sendable, CaseIterable {
  case noExpectedSequence = "no-expected-sequence"
}

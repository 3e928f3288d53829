/// One sender's numbered signals as one receiver's app got them: once each, in order; some may be missing.
package struct SignalStream: Sendable {
  package enum Flaw: Sendable { case doubled, outOfOrder }

  /// By number: the shard's epoch in which it came last.
  private var epochs: [Int: UInt64] = [:]
  /// The highest number among those whose order counts.
  package private(set) var highest = 0
  private var flaws: Set<Flaw> = []

  package init() {}

  package func has(_ number: Int) -> Bool { epochs[number] != nil }

  /// The sender starts again. What it sends from now on is compared with nothing before.
  package mutating func restarted() { highest = 0 }

  /// Takes in a signal.
  ///
  /// - Parameters:
  ///   - epoch: the epoch of the shard that delivered it. A new owner may retransmit what was
  ///     acknowledged to the former one, so the same number in a later epoch is no flaw.
  ///   - isOrdered: whether its place among the others counts.
  /// - Returns: what is wrong with it, once per stream and flaw.
  package mutating func receive(_ number: Int, epoch: UInt64 = 0, isOrdered: Bool = true) -> Flaw? {
    if let before = epochs.updateValue(epoch, forKey: number) {
      return before < epoch ? nil : first(.doubled)
    }
    guard isOrdered else { return nil }
    guard number < highest else {
      highest = number
      return nil
    }
    return first(.outOfOrder)
  }

  private mutating func first(_ flaw: Flaw) -> Flaw? { flaws.insert(flaw).inserted ? flaw : nil }
}

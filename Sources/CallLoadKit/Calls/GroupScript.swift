import CallCore

/// The acts of the members of a group in one call, drawn from the seed.
struct GroupScript: Sendable, Equatable {
  /// How a member gives the call on to the others.
  enum Pass: CaseIterable, Sendable {
    /// One of the devices declines for the user.
    case declines
    /// All devices are busy.
    case isBusy
    /// No member reacts. Where all ring together that gives nothing on.
    case waits
  }

  /// The acts of the members that do not answer, in the order in which they ring.
  var passes: [Pass]
  /// The caller cancels while the next member rings, who would answer otherwise.
  var isCancelled: Bool

  private static let cancelledShare = 0.2

  init(passes: [Pass], isCancelled: Bool) {
    self.passes = passes
    self.isCancelled = isCancelled
  }

  /// - Parameter answersFirst: the first member answers, or is the one for whom the caller does not wait.
  init(members: Int, answersFirst: Bool, _ random: inout SplitMix64) {
    let most = max(0, members - 1)
    let count = answersFirst || most == 0 ? 0 : Int.random(in: 1...most, using: &random)
    passes = (0..<count).map { _ in Pass.allCases.randomElement(using: &random) ?? .declines }
    isCancelled = Double.random(in: 0..<1, using: &random) < Self.cancelledShare
  }
}

package import CallCore

/// A call that is placed while another one is answered, drawn with that one.
struct SecondScript: Sendable, Equatable {
  let call: CallID
  /// Those of the user who is called.
  let callees: Range<Int>
  /// The device that places it; nil: the one that hands the first call over.
  let caller: Int?

  /// A third user calls one of the two users of the first call.
  init(
    _ call: CallID, from third: Range<Int>, to sides: [Range<Int>], _ random: inout SplitMix64
  ) {
    self.call = call
    caller = Int.random(in: third, using: &random)
    callees = sides.randomElement(using: &random) ?? sides[0]
  }

  /// One of the two asks a third user.
  init(_ call: CallID, to third: Range<Int>) {
    self.call = call
    callees = third
    caller = nil
  }
}

/// The part of a second call, as the judge knows it.
package struct SecondCallTerms: Sendable, Equatable {
  /// The call that is answered when this one is placed.
  package var first: CallID
  /// The app's users take no second call, so this one is to end as busy; else it rings.
  package var isRefused: Bool

  package init(first: CallID, isRefused: Bool) {
    self.first = first
    self.isRefused = isRefused
  }
}

/// What the methods of a call need from its shard: the time, the limits, and the state of the owner.
struct CallContext {
  let now: Timestamp
  let limits: CallLimits
  let epoch: UInt64
  /// False before a new owner begins: until then it delivers nothing.
  let isServing: Bool
  /// The journal has not taken what was decided before. Retransmissions would only add to that, and all of
  /// them would leave at one moment.
  let isHeldBack: Bool
}

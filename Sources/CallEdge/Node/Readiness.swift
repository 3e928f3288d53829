/// Whether a node can serve, as `/readyz` on the operators' port reports it.
public struct Readiness: Sendable, Equatable {
  /// What is missing, as sentences.
  public var missing: [String]
  /// At most the first 32 of them.
  public var shardsWithoutOwner: [Int]

  public init(missing: [String] = [], shardsWithoutOwner: [Int] = []) {
    self.missing = missing
    self.shardsWithoutOwner = shardsWithoutOwner
  }

  public var isReady: Bool { missing.isEmpty }
}

extension EdgeNode {
  /// Whether devices should be sent here.
  public var readiness: Readiness {
    var missing: [String] = []
    switch state.value {
    case .starting: missing.append("the edge starts")
    case .draining, .drained: missing.append("the edge drains")
    case .cutOff: missing.append("the cluster does not answer the edge")
    case .serving: break
    }
    if !shared.isBusConnected() { missing.append("the bus is not connected") }
    let ownerless = shared.health.ownerless
    if !ownerless.isEmpty { missing.append("\(ownerless.count) shards have no owner") }
    return Readiness(missing: missing, shardsWithoutOwner: Array(ownerless.prefix(32)))
  }
}

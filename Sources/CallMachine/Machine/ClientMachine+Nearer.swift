internal import CallCore
internal import CallWire

// Moving to the edge that the cluster names as nearer: the one in a process with the owner of the user's
// shard. It is a preference: the list of edges stays as it is, and a device that cannot move stays.
extension ClientMachine {
  package func address(ofEdge edge: Int) -> String {
    edge < configuration.edges.count ? configuration.edges[edge] : nearerAddress
  }

  /// The present edge has said which edge is nearer; empty: none.
  mutating func noteNearer(_ address: String, _ turn: inout Turn) {
    guard configuration.followsNearer, state == .attached else { return }
    switch move?.phase {
    // The next edge will say it, too.
    case .connecting, .attaching: return
    case .waiting where move?.isToNearer == false: return
    case .waiting, nil: break
    }
    guard let target = edge(at: address) else {
      move = nil
      return
    }
    // Another address does not make the device move sooner.
    let until = move?.deadline ?? max(turn.now, nearerNotBefore) + spread(&turn)
    move = Move(edge: target, phase: .waiting(until: until), isToNearer: true)
  }

  /// The place of an address that the device may move to; nil: it is there already, or may not.
  private mutating func edge(at address: String) -> Int? {
    guard let edge = EdgeAddress(nearer: address), edge != EdgeAddress(presentAddress) else {
      return nil
    }
    let listed = configuration.edges.map { EdgeAddress($0) }
    if let index = listed.firstIndex(of: edge) { return index }
    // A device that was given edges with TLS shows its token to no other.
    guard edge.isSecure || !listed.contains(where: { $0?.isSecure == true }) else { return nil }
    nearerAddress = address
    return configuration.edges.count
  }

  private func spread(_ turn: inout Turn) -> Span {
    let most = max(0, configuration.nearerSpread.microseconds)
    return Span(microseconds: Int64.random(in: 0...most, using: &turn.random))
  }

  /// It is time to move. If the device is busy, the time comes again.
  mutating func mayMoveToNearer(_ turn: inout Turn) -> Bool {
    guard !isBusy else {
      postponeMoveToNearer(&turn)
      return false
    }
    nearerNotBefore = turn.now + configuration.nearerPause
    if edge < configuration.edges.count { listedEdge = edge }
    return true
  }

  /// A call begins. An attach that was sent can no longer be taken back.
  mutating func stayForCall(_ turn: inout Turn) {
    guard let move, move.isToNearer, case .connecting = move.phase else { return }
    turn.actions.append(.closeNext)
    postponeMoveToNearer(&turn)
  }

  private mutating func postponeMoveToNearer(_ turn: inout Turn) {
    let until = turn.now + .seconds(1) + spread(&turn)
    move?.phase = .waiting(until: until)
  }

  /// Whether a call rings or goes on here, or a command waits for its reply.
  private var isBusy: Bool { !pending.isEmpty || isInCall }

  /// Whether a call rings or goes on here, or waits for what this device has to say or ask about it.
  var isInCall: Bool {
    !wokenFor.isEmpty || calls.values.contains { $0.phase != .unknown && !$0.isEnded }
      || pending.contains { $0.command.address != nil }
  }
}

extension EdgeAddress {
  static let nearerBytesMax = 256

  /// Reads an address that a server named: with its scheme, and short.
  init?(nearer text: String) {
    guard text.utf8.count <= Self.nearerBytesMax,
      text.hasPrefix("ws://") || text.hasPrefix("wss://"), let address = EdgeAddress(text),
      address.host.utf8.allSatisfy(Self.isOfHost)
    else { return nil }
    self = address
  }

  private static func isOfHost(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"),
      UInt8(ascii: ":"), UInt8(ascii: "_"):
      true
    default: false
    }
  }
}

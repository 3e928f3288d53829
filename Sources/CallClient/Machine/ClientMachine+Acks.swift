package import CallCore
internal import CallWire

// Acknowledgements of deliveries: they travel with the next command, or by themselves a little later.
extension ClientMachine {
  struct PendingAck: Sendable {
    var item: AckItem
    /// Any command about the call acknowledges the invite as well.
    var isInvite: Bool
  }

  /// Nothing more to read for now: deliveries are acknowledged with the next command, or after
  /// `ackDelay`.
  package mutating func readCompleted(_ turn: inout Turn) {
    guard !acks.isEmpty else { return }
    if acks.count >= Self.acksMax || configuration.ackDelay.microseconds == 0 {
      sendAcks(&turn)
    } else if acksDueAt == nil {
      acksDueAt = turn.now + configuration.ackDelay
    }
  }

  /// When `fire` sends the waiting acknowledgements at the latest; nil: none wait.
  package var ackDeadline: Timestamp? { acksDueAt }

  static let acksMax = 32

  mutating func sendAcks(_ turn: inout Turn) {
    acksDueAt = nil
    guard !acks.isEmpty else { return }
    if state == .attached {
      turn.actions.append(.send(ClientFrame(id: 0, command: .ack(acks.map(\.item)))))
    }
    acks.removeAll(keepingCapacity: true)
  }

  mutating func forgetAcks() {
    acksDueAt = nil
    acks.removeAll()
  }
}

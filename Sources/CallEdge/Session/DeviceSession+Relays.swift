internal import CallCore
internal import CallWire

/// The session's credentials for TURN servers, for a device that asked for them.
extension DeviceSession {
  /// Makes credentials, and notes when the next ones are due; nil: the device did not ask, or there are no servers.
  mutating func makeRelays(of identity: Identity, now: Timestamp) -> RelayCredentials? {
    guard identity.wantsRelays, let servers = rules.configuration.relays else { return nil }
    let life = servers.lifetime.microseconds
    relaysDueAt = now + Span(microseconds: life / 2 + spread(over: life / 4))
    return servers.credentials(for: identity.user.user, now: now)
  }

  /// Sends new credentials at a moment of the third quarter of the former ones' life.
  mutating func renewRelays(_ turn: inout Turn) {
    guard relaysDueAt <= turn.now, case .attached(let identity) = phase else { return }
    relaysDueAt = .distantFuture
    guard let relays = makeRelays(of: identity, now: turn.now) else { return }
    turn.actions.append(.relays(relays))
  }
}

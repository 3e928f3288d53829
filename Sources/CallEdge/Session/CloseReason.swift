/// Why an edge closes a WebSocket. Raw values are the close codes on the wire; those from 4000 are
/// Callmesh's own and never get another meaning.
package enum CloseReason: UInt16, Sendable, CaseIterable {
  /// The device asked for it.
  case normal = 1000
  case protocolError = 1002
  case messageTooLarge = 1009
  /// The device attached elsewhere.
  case sessionReplaced = 4000
  /// The device's registration gave way to another one.
  case deviceRemoved = 4001
  /// The edge drains.
  case goAway = 4002
  /// No attach in time.
  case attachTimeout = 4003
  /// Too many frames that could not be read, or attaches that were refused.
  case tooManyBadFrames = 4004
  /// The device does not read what is sent.
  case slowConsumer = 4005
  /// The rate limit was ignored for too long.
  case tooManyCommands = 4006
  /// Pings were not answered.
  case pingTimeout = 4007
  /// The session's token expired, and was not renewed.
  case tokenExpired = 4008
  /// The tokens of the user were revoked, or the key that signed the session's was taken out.
  case revoked = 4009
  /// A message was begun and not ended in time.
  case messageTimeout = 4010
  /// An operator ended the session.
  case kicked = 4011

  package var text: String {
    switch self {
    case .normal: "bye"
    case .protocolError: "protocol error"
    case .messageTooLarge: "message too large"
    case .sessionReplaced: "session replaced"
    case .deviceRemoved: "device removed"
    case .goAway: "go away"
    case .attachTimeout: "no attach in time"
    case .tooManyBadFrames: "too many bad frames or tokens"
    case .slowConsumer: "slow consumer"
    case .tooManyCommands: "too many commands"
    case .pingTimeout: "pings not answered"
    case .tokenExpired: "token expired"
    case .revoked: "token revoked"
    case .messageTimeout: "message not whole in time"
    case .kicked: "ended by an operator"
    }
  }
}

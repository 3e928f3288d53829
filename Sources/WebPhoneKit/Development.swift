package import CallAuth
import FoundationEssentials

/// The data that the page gets from its server: edges, contacts, and tokens of any user. For
/// development only.
package struct Development: Sendable {
  /// How long a token is good. The client asks for another one in time.
  static let tokenSeconds: Int64 = 3600

  package struct Contact: Codable, Sendable, Equatable {
    package var user: String
    /// The display name: the id with a capital letter.
    package var name: String
    /// The users who ring together when this one is called; nil: it is no group.
    package var members: [String]?

    package init(user: String, members: [String]? = nil) {
      self.user = user
      name = user.prefix(1).uppercased() + user.dropFirst()
      self.members = members
    }
  }

  struct Settings: Encodable {
    var edges: [String]
    var contacts: [Contact]
  }

  struct Token: Encodable {
    var token: String
  }

  let edges: [String]
  let reach: Reach
  let contacts: [Contact]
  let keys: AppKeys
  let app: String
  let now: @Sendable () -> Int64

  /// - Parameter now: seconds since 1970.
  package init(
    edges: [String], reach: Reach = .loopback, contacts: [Contact], keys: AppKeys, app: String,
    now: @escaping @Sendable () -> Int64
  ) {
    self.edges = edges
    self.reach = reach
    self.contacts = contacts
    self.keys = keys
    self.app = app
    self.now = now
  }

  /// - Parameter host: by which the page reaches this machine.
  func settings(from host: String) -> WebAnswer {
    .json(Settings(edges: edges.map { reach.edge($0, from: host) }, contacts: contacts))
  }

  func token(of user: String?) -> WebAnswer {
    guard let user else { return .text(400, "Say who: /development/token?user=ann") }
    do {
      let token = try keys.mintToken(
        app: app, user: user, name: Contact(user: user).name, lifetimeSeconds: Self.tokenSeconds,
        now: now())
      return .json(Token(token: token))
    } catch {
      return .text(400, "\(error)")
    }
  }
}

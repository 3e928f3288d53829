/// The teams that a server knows, with their bundles and keys, and a cache of verified provider
/// tokens.
public struct APNsTeams: Sendable {
  /// The bundle ids of each team.
  public private(set) var bundles: [String: Set<String>] = [:]
  package private(set) var keys: [String: APNsProviderKey] = [:]

  /// A token's signature is verified once: a sender uses a token for tens of minutes. Policy at the
  /// limit: the cache is emptied.
  private var read: [Substring: ProviderToken?] = [:]
  static let tokensReadMax = 4096

  public init() {}

  public mutating func add(_ key: APNsProviderKey, bundles: Set<String> = []) {
    keys[key.id] = key
    self.bundles[key.team, default: []].formUnion(bundles)
    read.removeAll()
  }

  public mutating func add(bundle: String, to team: String) {
    bundles[team, default: []].insert(bundle)
  }

  /// A token's claims; nil if it is invalid.
  package mutating func token(_ text: Substring, _ leniency: APNsLeniency) -> ProviderToken? {
    if let known = read[text] { return known }
    let token = ProviderToken(text, keys: keys, leniency: leniency)
    if read.count >= Self.tokensReadMax { read.removeAll(keepingCapacity: true) }
    read[Substring(String(text))] = .some(token)
    return token
  }
}

public import CallCore

/// Where an app's server learns of its calls, from the file of keys. docs/webhooks.md is for the app's developers.
public struct WebhookSettings: Sendable, Equatable {
  package let endpoint: SignedEndpoint
  public let events: Set<AppEventKind>

  /// Webhooks of one app.
  public static let countMax = 4

  package init(_ endpoint: SignedEndpoint, events: Set<AppEventKind> = Set(AppEventKind.allCases)) {
    self.endpoint = endpoint
    self.events = events
  }
}

extension WebhookSettings {
  /// - Throws: what is wrong with the first webhook that is.
  static func read(
    _ entries: [KeyFile.Webhook], _ place: AppKeysError.Place
  ) throws(AppKeysError) -> [WebhookSettings] {
    guard entries.count <= countMax else {
      throw place.error("it has \(entries.count) webhooks", "give at most \(countMax)")
    }
    var found: [WebhookSettings] = []
    for entry in entries {
      let endpoint = try SignedEndpoint(entry.url, entry.secrets, of: "webhook", place)
      guard !found.contains(where: { $0.endpoint.url == endpoint.url }) else {
        throw place.error("two webhooks have the same url", "put their events in one")
      }
      found.append(WebhookSettings(endpoint, events: try events(entry, place)))
    }
    return found
  }

  private static func events(
    _ entry: KeyFile.Webhook, _ place: AppKeysError.Place
  ) throws(AppKeysError) -> Set<AppEventKind> {
    guard let names = entry.events else { return Set(AppEventKind.allCases) }
    var kinds: Set<AppEventKind> = []
    for name in names {
      guard let kind = AppEventKind.allCases.first(where: { $0.type == name }) else {
        let types = AppEventKind.allCases.map(\.type)
        throw place.error(
          "there is no event \"\(name)\"",
          Suggestion.closest(to: name, among: types).map { "did you mean \($0)?" }
            ?? "events are \(types.joined(separator: ", "))")
      }
      kinds.insert(kind)
    }
    guard !kinds.isEmpty else {
      throw place.error("a webhook has no events", "name some, or leave events away for all")
    }
    return kinds
  }
}

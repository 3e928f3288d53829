/// What is wrong with a key file, where, and how to fix it.
public struct AppKeysError: Error, Sendable, Equatable, CustomStringConvertible {
  public var file: String
  public var app: String?
  public var kid: String?
  public var what: String
  public var remedy: String

  public var description: String {
    var place = file
    if let app { place += ", app \"\(app)\"" }
    if let kid { place += ", key \"\(kid)\"" }
    return "\(place): \(what); \(remedy)"
  }

  /// A file, an app or a key that may be wrong.
  struct Place {
    var file: String
    var app: String?
    var kid: String?
    func error(_ what: String, _ remedy: String) -> AppKeysError {
      AppKeysError(file: file, app: app, kid: kid, what: what, remedy: remedy)
    }
  }
}

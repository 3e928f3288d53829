package import CallCore
internal import Crypto
internal import FoundationEssentials

extension AppKeys {
  /// Generates an HS256 and an ES256 key for one app, and the key file that contains them. For development: whoever
  /// has the file can be any user.
  public static func generateDevelopment(app: String) -> (AppKeys, json: String) {
    generateDevelopment(apps: [app])
  }

  /// The same for several apps.
  /// - Parameter limits: by app, where they differ from the default.
  package static func generateDevelopment(
    apps names: [String], limits: [String: [AppLimit: Int]] = [:]
  ) -> (AppKeys, json: String) {
    var apps: [String: App] = [:]
    var file = KeyFile(apps: [])
    for name in names {
      var (app, entry) = developmentApp(name)
      for (limit, value) in limits[name] ?? [:] {
        app.terms.limits[limit] = value
        entry.limits = (entry.limits ?? [:]).merging([limit.rawValue: value]) { $1 }
      }
      apps[name] = app
      file.apps.append(entry)
    }
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    // Strings and integers can always be encoded.
    let json = (try? encoder.encode(file)).map { String(decoding: $0, as: UTF8.self) } ?? ""
    return (AppKeys(apps: apps), json)
  }

  private static func developmentApp(_ name: String) -> (App, KeyFile.App) {
    let secret = SymmetricKey(size: .bits256)
    let pair = P256.Signing.PrivateKey()
    let text = secret.withUnsafeBytes { Data($0).base64EncodedString() }
    let entry = KeyFile.App(
      app: name,
      keys: [
        .init(kid: "dev-hs256", alg: "HS256", secret: text, publicKey: nil, privateKey: nil),
        .init(
          kid: "dev-es256", alg: "ES256", secret: nil,
          publicKey: pair.publicKey.pemRepresentation, privateKey: pair.pemRepresentation),
      ])
    let app = App(
      name: name,
      keys: [
        Key(app: name, kid: "dev-hs256", material: .hs256(secret)),
        Key(app: name, kid: "dev-es256", material: .es256(pair.publicKey, privateKey: pair)),
      ])
    return (app, entry)
  }
}

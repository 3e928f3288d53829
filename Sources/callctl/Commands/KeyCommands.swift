internal import ArgumentParser
internal import CallAuth
internal import CallTelemetry
internal import FoundationEssentials
internal import Glibc

struct TokenCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "token",
    abstract: "Makes a token with which a device can connect. For development.",
    discussion: """
      In production your app's server makes them, with the same key: a JWT with the claims app, \
      sub (the user), iat, exp and, to bind it to one device, device. Prints the token and nothing \
      else. Edges refuse one that is good for longer than their maxTokenAge (7d):

        curl -H "Authorization: Bearer $(callctl token --app demo --user ann)" …

      With --server it makes a token of the app's server, which may act for every user of the app \
      (docs/app-server.md): a JWT with the claims app, server (true), iat and exp, good for an hour \
      at most.
      """)

  @Option(help: "The app.") var app: String
  @Option(help: "The user's id.") var user: String?
  @Flag(help: "For the app's server instead of a user.") var server = false
  @Option(help: "Good for this device only.") var device: String?
  @Option(help: "The user's display name, which those who are called see.") var name: String?
  @Option(help: "How long it is good: 30s, 10m, 1h, 7d; a bare number is seconds.")
  var lifetime = "1h"
  @Option(
    help: .option("The file with the app's keys.", "KEYS_FILE", standard: KeysFilePath.standard))
  var keysFile: String?
  @Flag(help: "JSON with the token and when it expires.") var json = false

  func run() throws {
    guard let seconds = Lifetime.seconds(lifetime) else {
      throw CallctlError.usage("--lifetime is \"\(lifetime)\"; write 30s, 10m, 1h or 7d.")
    }
    let path = KeysFilePath.resolve(keysFile)
    let keys: AppKeys
    do {
      keys = try AppKeys.load(path: path)
    } catch {
      throw CallctlError.failed(
        "\(error).\n  For development: callctl keys --app \(app) makes one.")
    }
    let now = CalendarTime.nowMilliseconds() / 1000
    let token: String
    do {
      token =
        if let user {
          try keys.mintToken(
            app: app, user: user, device: device, name: name, lifetimeSeconds: seconds, now: now)
        } else {
          try keys.mintServerToken(app: app, lifetimeSeconds: seconds, now: now)
        }
    } catch {
      throw CallctlError.failed("no token could be made: \(error).")
    }
    try JSONOutput.print(
      Output(token: token, expiresAtSeconds: now + seconds), asJSON: json, else: token + "\n")
  }

  func validate() throws {
    guard server == (user == nil) else {
      throw ValidationError("Name a --user, or give --server for the app's server.")
    }
    if server, device != nil || name != nil {
      throw ValidationError("A server's token names no --device and no --name.")
    }
  }

  private struct Output: Encodable {
    var token: String
    var expiresAtSeconds: Int64
  }
}

struct KeysCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "keys",
    abstract: "Makes a file with new keys of an app. For development.",
    discussion: """
      Edges check tokens with it (callnode edge --keys-file FILE), callctl token signs with it. \
      Who has the file can be any user of the app: only its owner can read it. A file that is \
      there is never overwritten.
      """)

  @Option(help: "The app.") var app: String
  @Option(help: .option("Where to.", "KEYS_FILE", standard: KeysFilePath.standard))
  var keysFile: String?

  func run() throws {
    let path = KeysFilePath.resolve(keysFile)
    let (_, json) = AppKeys.generateDevelopment(app: app)
    do {
      // Refuses names of apps that are not acceptable.
      _ = try AppKeys(json: Array(json.utf8), file: path)
    } catch {
      throw CallctlError.usage("\(error).")
    }
    try write(json + "\n", path)
    let flag = keysFile.map { " --keys-file \($0)" } ?? ""
    print(
      "Keys of the app \(app) are in \(path). Next: callctl token --app \(app) --user NAME\(flag)")
  }

  /// Creates the file, which only its owner can read from the start.
  private func write(_ text: String, _ path: String) throws {
    let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard file >= 0 else {
      if errno == EEXIST {
        throw CallctlError.failed(
          "\(path) is there already, and tokens may depend on it. Name another file with "
            + "--keys-file, or remove it yourself.")
      }
      throw CallctlError.failed("\(path) cannot be created: \(String(cString: strerror(errno))).")
    }
    defer { close(file) }
    let bytes = Array(text.utf8)
    guard Glibc.write(file, bytes, bytes.count) == bytes.count else {
      throw CallctlError.failed("\(path) cannot be written: \(String(cString: strerror(errno))).")
    }
  }
}

private enum KeysFilePath {
  static let standard = "keys.json"

  static func resolve(_ flag: String?) -> String {
    flag ?? ProcessInfo.processInfo.environment["CALLMESH_KEYS_FILE"] ?? standard
  }
}

/// How long a token is valid, as people write it.
package enum Lifetime {
  package static func seconds(_ text: String) -> Int64? {
    let digits = text.prefix { $0.isASCII && $0.isNumber }
    let units: [Substring: Int64] = ["": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400]
    guard let unit = units[text.dropFirst(digits.count)], digits.utf8.count <= 10,
      let count = Int64(digits), count > 0
    else { return nil }
    return count * unit
  }
}

package import CallCore

/// The simulated devices, by number, and their names.
package struct Roster: Sendable {
  package let devices: Int
  package let devicesPerUser: Int
  /// The number in the name of the first user: other slices have the users before it.
  package let firstUser: Int
  /// Some users are of a second app, whose users take no second call, and see their ongoing calls.
  package var hasStrictApp = false

  package init(devices: Int, devicesPerUser: Int, firstUser: Int = 0) {
    self.firstUser = firstUser
    self.devices = max(0, devices)
    self.devicesPerUser = max(1, devicesPerUser)
  }

  /// More than a call has legs, to test that every attached device rings or is refused.
  package static let devicesPerUserMax = 24
  /// A user's other devices attach only: by default the cluster forgets the oldest of 11 registrations.
  static let registeredPerUserMax = 10

  func registers(_ device: Int) -> Bool { device % devicesPerUser < Self.registeredPerUserMax }

  package static let strictApp = "strict"
  /// Three of so many users are of that app.
  private static let strictEvery = 32
  private static let strictPlaces = 8..<11

  package func isStrict(_ user: Int) -> Bool {
    hasStrictApp && Self.strictPlaces.contains(user % Self.strictEvery)
  }

  package var strictUsers: [Int] { (0..<users).filter(isStrict) }

  /// nil: it is the load's own.
  func app(ofUser name: String) -> String? {
    hasStrictApp && user(name).map(isStrict) == true ? Self.strictApp : nil
  }

  package var users: Int { (devices + devicesPerUser - 1) / devicesPerUser }

  package func user(of device: Int) -> Int { device / devicesPerUser }

  /// The last user may have fewer.
  package func devices(of user: Int) -> Range<Int> {
    let first = user * devicesPerUser
    return first..<min(first + devicesPerUser, devices)
  }

  package func userName(_ user: Int) -> String { "u\(firstUser + user)" }

  package func deviceName(_ device: Int) -> String { "d\(device % devicesPerUser)" }

  package func party(_ device: Int) -> Party {
    Party(user: userName(user(of: device)), device: DeviceID(deviceName(device)))
  }

  /// The number of a party's device; nil for a device outside of the load.
  package func device(_ party: Party) -> Int? {
    guard let user = user(party.user),
      let place = Self.number(party.device.text, after: UInt8(ascii: "d")),
      place < devices(of: user).count
    else { return nil }
    return user * devicesPerUser + place
  }

  /// The number of a user; nil for one outside of the load.
  package func user(_ name: String) -> Int? {
    guard let number = Self.number(name, after: UInt8(ascii: "u")) else { return nil }
    let user = number - firstUser
    return (0..<users).contains(user) ? user : nil
  }

  private static func number(_ text: String, after prefix: UInt8) -> Int? {
    let digits = text.utf8.dropFirst()
    guard text.utf8.first == prefix, (1...9).contains(digits.count),
      digits.allSatisfy({ (48...57).contains($0) })
    else { return nil }
    return digits.reduce(0) { $0 * 10 + Int($1 - 48) }
  }
}

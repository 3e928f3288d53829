import CallLoadKit
import FoundationEssentials
import Testing

@Suite struct ScenarioTests {
  /// The repository's folder of scenario files.
  private static var folder: String {
    let parts = #filePath.split(separator: "/").dropLast(3)
    return "/" + parts.joined(separator: "/") + "/loadtest/scenarios"
  }

  @Test(arguments: Scenario.builtInNames)
  func theFileIsWhatTheProgramHas(name: String) throws {
    let path = "\(Self.folder)/\(name).json"
    let data = try #require(FileManager.default.contents(atPath: path))
    #expect(String(decoding: data, as: UTF8.self) == (Scenario.builtInTexts[name] ?? "") + "\n")
    #expect(try Scenario.load(path: path) == Scenario.named(name))
    #expect(Scenario.named(name)?.name == name)
  }

  @Test func theDefaultHasAllKinds() {
    #expect(Set(Scenario.default.parts.map(\.kind)) == Set(Scenario.Kind.allCases))
  }

  @Test func whatIsLeftOutHasItsDefault() throws {
    let scenario = try Scenario(json: #"{"name":"x","parts":[{"kind":"busy","weight":1}]}"#)
    #expect(scenario.parts == [Scenario.Part(kind: .busy, weight: 1)])
  }

  @Test(arguments: [
    (#"{"name":"x","parts":[]}"#, "weight above 0"),
    (#"{"name":"x"}"#, "the key parts is missing"),
    (#"{"name":"x","parts":[{"kind":"nap","weight":1}]}"#, "kind nap: known are answered"),
    (#"{"name":"x","parts":[{"kind":"busy"}]}"#, "the key weight is missing"),
    (#"{"name":"x","parts":[{"kind":"busy","weight":-1}]}"#, "below 0"),
    (#"{"name":"x","parts":[{"kind":"busy","weight":1,"talk":[1,2]}]}"#, "unknown key talk"),
    (#"{"name":"x","parts":[{"kind":"busy","weight":1,"talkMs":[2,1]}]}"#, "talkMs is [low, high]"),
    (
      #"{"name":"x","parts":[{"kind":"busy","weight":1,"ringTimeoutSeconds":4}]}"#,
      "ringTimeoutSeconds 4 is not 5 to 180"
    ),
    (#"{"name":"x","parts":[{"kind":"busy","weight":1,"candidates":2}]}"#, "is not 0 to 1"),
    (#"{"name":"x","parts":[{"kind":1,"weight":1}]}"#, "kind"),
    ("nonsense", ""),
  ])
  func mistakesAreNamed(json: String, part: String) {
    do {
      _ = try Scenario(json: json)
      Issue.record("accepted")
    } catch {
      #expect("\(error)".contains(part) || part.isEmpty, "\(error)")
    }
  }

  @Test func aMissingFileIsNamed() {
    #expect(throws: SetupError.self) { try Scenario.load(path: "/nowhere/x.json") }
  }
}

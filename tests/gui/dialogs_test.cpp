// SPDX-License-Identifier: Apache-2.0
// The hardware picker, the import of runs, the wizard for one's own engine, the report and the welcome strip.
#include <QComboBox>
#include <QDir>
#include <QDoubleSpinBox>
#include <QFileInfo>
#include <QLineEdit>
#include <QPushButton>
#include <QRegularExpression>
#include <QSettings>
#include <QTableWidget>
#include <algorithm>

#include "gui/core/slo_form.h"
#include "gui/window/export.h"
#include "gui/window/fit_dialog.h"
#include "gui/window/hardware_dialog.h"
#include "gui/window/header_bar.h"
#include "gui/window/import_dialog.h"
#include "gui/window/live_dock.h"
#include "gui/window/main_window.h"
#include "gui/window/welcome.h"
#include "model/error.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(HardwareListTest, NamesGpusAsTheirMakersDo) {
  EXPECT_EQ(utf8(gpu_name("h100-sxm")), "H100 SXM");
  EXPECT_EQ(utf8(gpu_name("a100-pcie-80gb")), "A100 PCIe");
  EXPECT_EQ(utf8(gpu_name("gaudi2")), "Gaudi2");
  EXPECT_EQ(utf8(gpu_name("l40s")), "L40S");
  EXPECT_EQ(utf8(gpu_name("mi300x")), "MI300X");
  EXPECT_EQ(utf8(gpu_name("tpu-v5e")), "TPU v5e");
  EXPECT_EQ(utf8(gpu_name("my-vllm")), "my-vllm") << "a user's own name is not an abbreviation";
}

// Every row can be chosen: a study with the row's name is valid, and has the row's count and price.
TEST(HardwareListTest, EveryRowIsWhatTheStudyReads) {
  const auto catalogue = std::make_shared<const configs::Catalogue>();
  const auto rows = hardware_rows(*catalogue);
  EXPECT_GT(rows.size(), 60U) << "52 instances, and those of SageMaker";
  for (const HardwareRow& row : rows) {
    Scenario scenario = new_scenario();
    set_field(scenario, "hardware", qs(row.name));
    const study::Hardware hardware = make_study(scenario, catalogue).point(0).hardware;
    EXPECT_EQ(hardware.count, row.count) << row.name;
    EXPECT_EQ(hardware.usd_per_hour, row.usd_per_hour) << row.name;
  }
}

TEST(HardwareListTest, OwnPricesReplaceTheCatalogues) {
  const auto catalogue = std::make_shared<const configs::Catalogue>();
  Scenario scenario = new_scenario();  // on a p5.48xlarge
  set_own_prices(scenario, {{{"p5.48xlarge", 30.5}}, 2.5});
  EXPECT_EQ(own_prices(scenario), (OwnPrices{{{"p5.48xlarge", 30.5}}, 2.5}));
  EXPECT_EQ(*make_study(scenario, catalogue).point(0).hardware.usd_per_hour, 30.5);
  set_field(scenario, "hardware", QStringLiteral("p4d.24xlarge"));
  EXPECT_EQ(*make_study(scenario, catalogue).point(0).hardware.usd_per_hour, 8 * 2.5);
  set_own_prices(scenario, {});
  EXPECT_TRUE(own_prices(scenario).instances.empty());
  EXPECT_TRUE(std::none_of(scenario.edits.begin(), scenario.edits.end(), [](const auto& e) {
    return e.first == "prices";
  })) << "nothing is left of them";
}

class DialogTest : public BenchTest {
 protected:
  DialogTest() : window_(bench_) {
    window_.resize(1200, 800);
    window_.show();
    open(bench_, kJumpStart);
  }
  ~DialogTest() override { qunsetenv("PLIMSOLL_PROGRAM"); }
  std::string text_of(const QString& file) {
    QFile in(file);
    EXPECT_TRUE(in.open(QIODevice::ReadOnly));
    return in.readAll().toStdString();
  }
  QString field(const char* path) { return field_value(bench_.session().scenario(), path).text; }
  Workbench bench_;
  MainWindow window_;
};

TEST_F(DialogTest, HardwareIsFoundByGpuAndTakenAtADiscount) {
  HardwareDialog dialog(bench_);
  const int all = dialog.shown();
  dialog.filter().setText(QStringLiteral("h100 aws"));
  EXPECT_GT(dialog.shown(), 0);
  EXPECT_LT(dialog.shown(), all / 4);
  const int h100 = dialog.shown();
  dialog.filter().setText(QStringLiteral("h100 aws, l40s aws"));
  EXPECT_GT(dialog.shown(), h100) << "machines to compare are seen together";
  dialog.filter().setText(QStringLiteral("no-such-gpu"));
  EXPECT_EQ(utf8(dialog.summary()), "No instance matches.");
  dialog.filter().setText(QStringLiteral("h100 aws"));
  dialog.table().clearSelection();
  dialog.choose("p5.48xlarge");
  dialog.discount().setValue(50);
  EXPECT_THAT(utf8(dialog.summary()), HasSubstr("8 × H100 SXM 80 GB (p5.48xlarge), 27.52 USD/h")) << "half of 55.04";
  dialog.accept();
  settle(bench_);
  EXPECT_EQ(field("hardware"), QStringLiteral("p5.48xlarge"));
  ASSERT_FALSE(bench_.failure()) << utf8(bench_.failure()->text);
  EXPECT_DOUBLE_EQ(*make_study(bench_.session().scenario(), bench_.catalogue()).point(0).hardware.usd_per_hour, 27.52);
  bench_.session().undo();
  EXPECT_EQ(field("hardware"), QStringLiteral("ml.p4d.24xlarge")) << "hardware and price are one step";
}

// The dialog used to call an own price the catalogue's, ignore a discount beside it, and never give it back.
TEST_F(DialogTest, AnOwnPriceIsShownDiscountedAndGivenBack) {
  const auto price = [&] {
    return *make_study(bench_.session().scenario(), bench_.catalogue()).point(0).hardware.usd_per_hour;
  };
  const double listed = price();
  {
    HardwareDialog dialog(bench_);
    EXPECT_EQ(dialog.own_price().value(), 0);
    dialog.own_price().setValue(40);
    dialog.discount().setValue(25);
    EXPECT_THAT(utf8(dialog.summary()), HasSubstr("(ml.p4d.24xlarge), 30 USD/h")) << "three quarters of 40";
    dialog.accept();
  }
  EXPECT_DOUBLE_EQ(price(), 30);
  HardwareDialog again(bench_);
  EXPECT_EQ(again.own_price().value(), 30);
  again.choose("p5.48xlarge");
  EXPECT_EQ(utf8(again.own_price().text()), "as stated") << "one has an own price, the other has not";
  again.table().clearSelection();
  again.choose("ml.p4d.24xlarge");
  again.own_price().setValue(0);
  again.accept();
  EXPECT_DOUBLE_EQ(price(), listed);
}

TEST_F(DialogTest, SeveralMachinesAreSwept) {
  bench_.set_value(QStringLiteral("deployment.tp"), QStringLiteral("4"));
  HardwareDialog dialog(bench_);
  dialog.table().clearSelection();
  for (const char* const name : {"p5.48xlarge", "p4d.24xlarge"}) dialog.choose(name);
  dialog.accept();
  settle(bench_);
  EXPECT_TRUE(field_value(bench_.session().scenario(), "hardware").swept);
  ASSERT_EQ(bench_.curves().curves().size(), 2U);
  EXPECT_EQ(utf8(bench_.curves().curves()[0].name), "p4d.24xlarge");
  EXPECT_THAT(utf8(window_.header().text()), HasSubstr("p4d.24xlarge, p5.48xlarge")) << "not the first alone";
}

// A spreadsheet with semicolons, decimal commas and names of its own.
constexpr const char* kSheet =
    "when;threads;first token;per_token_ms;tokens out\n"
    "mon;64;250,5;31,5;1900\n"
    "tue;128;300;36;2100\n";

TEST_F(DialogTest, ATableIsImportedByMappingItsColumns) {
  const QString file = qs(write("mine.csv", kSheet));
  ImportDialog dialog(bench_, file, &window_);
  EXPECT_THAT(utf8(dialog.state()), StartsWith("✗ ")) << "no column has a known figure";
  dialog.columns().choose(1, "concurrency", "");
  dialog.columns().choose(2, "ttft_mean_s", "");
  EXPECT_THAT(utf8(dialog.state()), HasSubstr("State the unit of “first token”")) << "it is never guessed";
  dialog.columns().choose(2, "ttft_mean_s", "ms");
  dialog.columns().choose(3, "tpot_mean_s", "");
  EXPECT_EQ(dialog.columns().unit_box(3).currentData().toString(), QString()) << "the name states it";
  EXPECT_THAT(utf8(dialog.state()), HasSubstr("✓ 2 points will be added"));
  // Only what the file has is offered for the vertical axis.
  EXPECT_GE(dialog.y_box().findData(QStringLiteral("ttft_mean_s")), 0);
  EXPECT_LT(dialog.y_box().findData(QStringLiteral("latency_p90_s")), 0);
  EXPECT_EQ(dialog.y_box().currentData().toString(), QStringLiteral("tpot_mean_s"));
  dialog.accept();
  settle(bench_);
  ASSERT_EQ(bench_.session().state().runs.size(), 1U);
  const PointRow& row = bench_.session().state().runs[0]->rows[0];
  EXPECT_NEAR(*value_of(row, *find_metric("ttft_mean_s")), 250.5, 1e-9);
  EXPECT_EQ(row.result.labels.load_value, 64);
  EXPECT_EQ(bench_.session().state().view.y, "tpot_mean_s");
  // The session keeps the runs without the file.
  const SessionState again = parse_session(session_text(bench_.session().state()), "s");
  ASSERT_EQ(again.runs.size(), 1U);
  EXPECT_EQ(again.runs[0]->tool, bench_.session().state().runs[0]->tool);
  bench_.session().undo();
  EXPECT_TRUE(bench_.session().state().runs.empty());
}

// Runs of a table without lengths are those of the scenario at the import. They used to follow any scenario: after
// doubling the prompts, the old runs were compared with the new prediction.
TEST_F(DialogTest, ImportedRunsKeepTheLengthsThatTheyWereMeasuredWith) {
  open(bench_, kJumpStart);
  settle(bench_);
  ImportDialog dialog(bench_, qs(write("t.csv", "clients,output_throughput\n4,400\n")), &window_);
  dialog.accept();
  const PointRow& row = bench_.session().state().runs.at(0)->rows.at(0);
  EXPECT_EQ(std::get<double>(row.cells.at(*column_index("input_tokens_mean"))), 256);
}

TEST_F(DialogTest, ARecognisedColumnCanBeLeftOut) {
  const std::string file = write("t.csv", "clients,ttft_ms,output_throughput\n4,100,640\n");
  ImportRequest request = import_request(file);
  EXPECT_TRUE(import_problem(request).isEmpty());
  choose_figure(request.columns[1], "");
  const study::ImportedResults results = import_runs(request);
  EXPECT_EQ(results.points.at(0).find("ttft_mean_s"), nullptr);
  EXPECT_NE(results.points.at(0).find("output_tokens_per_s"), nullptr);
  choose_figure(request.columns[2], "ttft_mean_s");
  request.columns[2].unit = "ms";
  choose_figure(request.columns[1], "ttft_mean_s");
  EXPECT_THAT(utf8(import_problem(request)), HasSubstr("Two columns"));
}

// The vllm bench result has no p90 latency per token, which the curves show at first; the limit line there is kept as a
// limit of the scenario.
TEST_F(DialogTest, OpeningRunsShowsAMetricThatTheyHave) {
  bench_.set_view({}, {}, [](ViewState& v) { v.limit = 50; });
  open(bench_, write("result.json",
                     R"({"model_id": "llama-2-7b", "num_prompts": 100, "request_rate": "inf", "max_concurrency": 64,
  "duration": 20.0, "completed": 100, "total_input_tokens": 25600, "total_output_tokens": 25600,
  "request_throughput": 5.0, "output_throughput": 1280.0, "total_token_throughput": 2560.0, "mean_ttft_ms": 125.0,
  "mean_tpot_ms": 20.0})"));
  EXPECT_EQ(bench_.session().state().view.y, "tpot_mean_s");
  EXPECT_THAT(utf8(field("slo")), HasSubstr("p90_latency_per_token: 50 ms"));
}

constexpr const char* kFit =
    R"(echo "$@" > "$0.arguments"; for last in "$@"; do case "$last" in *.csv) cp "$last" "$0.csv";; esac; done
cat <<'END'
{"v":1,"type":"log","level":"note","text":"fitting"}
{"v":1,"type":"fit","engine":"my-vllm","like":"vllm-0.12","runs":9,"held_out":3,"accelerator":"",)"
    R"("values":[],"errors":[{"metric":"ttft_mean_s","fitted":true,"median":0.021,"p90":0.05,"count":9},)"
    R"({"metric":"ttft_mean_s","fitted":false,"median":0.043,"p90":0.09,"count":3}],"coverage":0.92,)"
    R"("figures":[{"metric":"ttft_mean_s","fitted":true,"measured":0.1,"predicted":0.11,"run":"a"},)"
    R"({"metric":"ttft_mean_s","fitted":false,"measured":0.2,"predicted":0.19,"run":"b"}],"text":"report"}
{"v":1,"type":"done","exit":0}
END
)";

class FitTest : public DialogTest {
 protected:
  FitTest() {
    const std::string file = write("plimsoll", std::string("#!/bin/sh\n") + kFit);
    QFile(qs(file)).setPermissions(QFileDevice::ReadOwner | QFileDevice::WriteOwner | QFileDevice::ExeOwner);
    qputenv("PLIMSOLL_PROGRAM", QByteArray::fromStdString(file));
  }
  void wait(FitDialog& dialog) {
    ASSERT_TRUE(QTest::qWaitFor([&] { return dialog.run().run().state() == ChildRun::State::idle; }, kPatienceMs));
    settle(bench_);
  }
  std::string arguments() { return text_of(folder_.filePath(QStringLiteral("plimsoll.arguments"))); }
};

// From a spreadsheet to the errors in and out of the fit: the runs that are fitted are the columns as they were mapped.
TEST_F(FitTest, FilesAreMappedAndFitted) {
  FitDialog dialog(bench_, &window_);
  EXPECT_THAT(utf8(dialog.problem()), HasSubstr("Add at least one file"));
  dialog.next();
  EXPECT_EQ(dialog.page(), 0);
  dialog.add_files({qs(write("mine.csv", kSheet))});
  dialog.next();
  ASSERT_EQ(dialog.page(), 1);
  EXPECT_THAT(utf8(dialog.problem()), HasSubstr("mine.csv: "));
  dialog.columns().choose(1, "concurrency", "");
  dialog.columns().choose(2, "ttft_mean_s", "ms");
  dialog.next();
  ASSERT_EQ(dialog.page(), 2);
  dialog.next();
  EXPECT_EQ(dialog.page(), 2) << "the engine has no name yet";
  dialog.name_line().setText(QStringLiteral("my-vllm"));
  dialog.next();
  ASSERT_EQ(dialog.page(), 3);
  wait(dialog);
  EXPECT_THAT(arguments(), StartsWith("calibrate --engine my-vllm --from "));
  EXPECT_THAT(arguments(), HasSubstr("/mine.csv --progress jsonl"));
  const std::string fitted = text_of(folder_.filePath(QStringLiteral("plimsoll.csv")));
  EXPECT_THAT(fitted, HasSubstr("0.2505"));
  EXPECT_THAT(utf8(dialog.run().verdict()), HasSubstr("9 runs are fitted, 3 are held out"));
  ASSERT_EQ(dialog.run().errors().rowCount(), 1);
  EXPECT_EQ(dialog.run().errors().item(0, 0)->text(), QStringLiteral("Mean TTFT"));
  EXPECT_THAT(utf8(dialog.run().errors().item(0, 1)->text()), StartsWith("2.1 %"));
  EXPECT_THAT(utf8(dialog.run().errors().item(0, 2)->text()), StartsWith("4.3 %"));
  EXPECT_EQ(dialog.run().parity().content().series.size(), 3U);
  ASSERT_TRUE(dialog.run().use_button().isEnabled());
  dialog.run().use_button().click();
  EXPECT_EQ(field("engine"), QStringLiteral("my-vllm"));
}

// Each run has a folder of its own, and the files in them have the same name: the folder tells them apart.
TEST_F(FitTest, FilesOfOneNameAreToldApartByTheirFolders) {
  FitDialog dialog(bench_, &window_);
  QStringList files;
  for (const char* folder : {"first", "second"}) {
    ASSERT_TRUE(QDir(folder_.path()).mkpath(qs(folder)));
    files << qs(write(std::string(folder) + "/runs.csv", kSheet));
  }
  dialog.add_files(files);
  dialog.next();
  EXPECT_THAT(utf8(dialog.problem()), StartsWith("first/runs.csv: "));
  dialog.add_files({qs(write("mine.csv", kSheet))});
  const auto boxes = dialog.findChildren<QComboBox*>();
  const auto box = std::find_if(boxes.begin(), boxes.end(), [](const QComboBox* b) {
    return b->accessibleName() == QStringLiteral("File whose columns are shown");
  });
  ASSERT_NE(box, boxes.end());
  EXPECT_EQ((*box)->itemText(1), QStringLiteral("second/runs.csv"));
  EXPECT_EQ((*box)->itemText(2), QStringLiteral("mine.csv"));
}

// Return must not discard what was entered.
TEST_F(FitTest, ReturnDoesNotCloseTheWizard) {
  FitDialog dialog(bench_, &window_);
  dialog.show();
  QTest::keyClick(&dialog, Qt::Key_Return);
  EXPECT_TRUE(dialog.isVisible());
  for (const QPushButton* button : dialog.findChildren<QPushButton*>()) {
    const bool closes = button->text() == QStringLiteral("&Close");
    EXPECT_FALSE(closes && button->autoDefault());
  }
}

TEST(FitWordsTest, AMessageNamesTheFieldsOfTheWizard) {
  EXPECT_EQ(utf8(in_words_of_the_form(QStringLiteral(
                "--like: the runs name no engine; state which one yours resembles (plimsoll list engines)"))),
            "“It resembles”: the runs name no engine; state which one yours resembles");
  EXPECT_EQ(utf8(in_words_of_the_form(QStringLiteral("state --tp or --tp-max"))), "state “TP degree” or --tp-max");
}

TEST_F(FitTest, AServerNeedsNoColumns) {
  window_.live().endpoint().setText(QStringLiteral("http://127.0.0.1:8000"));
  window_.live().calibrate();
  auto* dialog = window_.findChild<FitDialog*>();
  ASSERT_NE(dialog, nullptr) << "Calibrate with a server's address opens the wizard";
  dialog->next();
  ASSERT_EQ(dialog->page(), 2);
  dialog->name_line().setText(QStringLiteral("my-vllm"));
  dialog->next();
  wait(*dialog);
  EXPECT_THAT(arguments(), HasSubstr("--endpoint http://127.0.0.1:8000"));
  EXPECT_THAT(arguments(), Not(HasSubstr("--from")));
  dialog->back();
  EXPECT_EQ(dialog->page(), 2);
}

TEST_F(DialogTest, TheReportHasQuestionAnswerPictureAndFlags) {
  bench_.set_view({}, {}, [](ViewState& v) { v.limit = 50; });
  settle(bench_);
  const QString html = folder_.filePath(QStringLiteral("report.html"));
  write_report(bench_, window_.curves(), html);
  const std::string page = text_of(html);
  for (const char* const part :
       {"Model llama-2-7b on 8 × A100 SXM 40 GB (ml.p4d.24xlarge)", "p90 latency per token ≤ 50 ms", "Answer",
        "limited by p90 latency per output token", "<svg", "Assumptions", "MAX_BATCH", "workload:"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  const QString pdf = folder_.filePath(QStringLiteral("report.pdf"));
  write_report(bench_, window_.curves(), pdf);
  EXPECT_GT(QFileInfo(pdf).size(), 10'000);
  const SessionState session = parse_session(session_in_picture(pdf), "report");
  EXPECT_EQ(session.view, bench_.session().state().view) << "the report opens as the session";
  const std::string bytes = text_of(pdf);
  std::size_t pages = 0;
  for (std::size_t at = bytes.find("/Type /Page\n"); at != std::string::npos; at = bytes.find("/Type /Page\n", at + 1))
    ++pages;
  EXPECT_EQ(pages, 1U);
  EXPECT_THROW(write_report(bench_, window_.curves(), folder_.filePath(QStringLiteral("report.doc"))), InputError);
}

// Returns the contents of a PDF: its texts, pictures and attachments.
std::vector<std::string> streams_of(const std::string& pdf) {
  std::vector<std::string> out;
  for (std::size_t at = pdf.find("stream\n"); at != std::string::npos; at = pdf.find("stream\n", at + 1)) {
    if (pdf.substr(at - 3, 3) == "end") continue;
    const QByteArray raw = QByteArray::fromStdString(pdf.substr(at + 7, pdf.find("endstream", at) - at - 7));
    out.push_back(raw.startsWith('\x78') ? qUncompress(QByteArray("\0\1\0\0", 4) + raw).toStdString()
                                         : raw.toStdString());
  }
  return out;
}

// The picture used to be drawn at 144 / 96 of its width, and the page cut its right end off.
TEST_F(DialogTest, TheReportsPictureFitsThePage) {
  settle(bench_);
  const QString file = folder_.filePath(QStringLiteral("r.pdf"));
  write_report(bench_, window_.curves(), file);
  // The scale of the picture and its width in pixels.
  const QRegularExpression place(QStringLiteral(
      "([0-9.]+) 0 0 [0-9.]+ [0-9.]+ [0-9.]+ cm\n([0-9.]+) 0 0 -?[0-9.]+ [0-9.]+ [0-9.]+ cm /Im\\d+ +Do"));
  QRegularExpressionMatch found;
  for (const std::string& stream : streams_of(text_of(file))) {
    if (!found.hasMatch()) found = place.match(qs(stream));
  }
  ASSERT_TRUE(found.hasMatch());
  const double width = found.captured(1).toDouble() * found.captured(2).toDouble();
  const double page = (210 - 2 * 14) / 25.4 * 144;  // A4 without its margins, at 144 dots an inch
  EXPECT_LE(width, page + 1);
  EXPECT_GE(width, 0.4 * page);
}

// Paper is white. The text used to have the dark window's light ink, and the plot its dark ground.
TEST_F(DialogTest, TheReportOfADarkWindowIsThatOfALightOne) {
  const auto report = [&](bool dark, const QString& ending) {
    window_.set_dark(dark);
    static_cast<void>(window_.curves());
    const QString file = folder_.filePath(QStringLiteral("r") + ending);
    write_report(bench_, window_.curves(), file);
    return text_of(file);
  };
  for (const QColor& ink : {dark_theme().background, dark_theme().soft_text, dark_theme().grid})
    EXPECT_EQ(report(true, QStringLiteral(".html")).find(utf8(ink.name())), std::string::npos) << utf8(ink.name());
  const auto light = streams_of(report(false, QStringLiteral(".pdf")));
  EXPECT_GT(light.size(), 3U) << "the page, the picture, the session and a font";
  EXPECT_EQ(streams_of(report(true, QStringLiteral(".pdf"))) == light, true);
  EXPECT_EQ(QApplication::palette().color(QPalette::Window).lightness() < 128, true);
  window_.set_dark(false);
}

TEST_F(DialogTest, TheWelcomeStripIsClosedForGood) {
  auto* strip = window_.findChild<WelcomeStrip*>();
  ASSERT_NE(strip, nullptr);
  EXPECT_TRUE(strip->isHidden());
  QSettings().remove(QStringLiteral("welcomed"));
  window_.welcome();
  EXPECT_FALSE(strip->isHidden());
  Q_EMIT strip->plan_wanted();
  EXPECT_TRUE(window_.findChild<QWidget*>(QStringLiteral("decision"))->isVisible());
  Q_EMIT strip->new_wanted();
  settle(bench_);
  EXPECT_TRUE(strip->isHidden());
  EXPECT_EQ(field("model"), QStringLiteral("llama-3.1-8b"));
  Q_EMIT strip->dismissed();
  window_.welcome();
  EXPECT_TRUE(strip->isHidden());
  QSettings().remove(QStringLiteral("welcomed"));
  EXPECT_THAT(utf8(about_text()), HasSubstr("GNU General Public License"));
}

}  // namespace
}  // namespace plimsoll::gui

"""The live page in a real browser."""

import shutil
import time

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

import kernelstream as ks
from kernelstream.serve import Block, ServedModel
from kernelstream.serve.service import Service

from .conftest import running
from .streams import X, new_model, rows

pytestmark = pytest.mark.skipif(
    not (shutil.which("chromium") and shutil.which("chromedriver")),
    reason="needs Debian's chromium and chromium-driver",
)


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                     "--window-size=1000,900"):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(shutil.which("chromedriver"))
    )
    yield driver
    driver.quit()


def text(browser, name):
    return browser.find_element(By.ID, name).text


def until(browser, condition, seconds=15):
    return WebDriverWait(browser, seconds, poll_frequency=0.1).until(lambda _: condition())


def set_size(browser, width):
    """Show the page as wide as this: a phone's width makes it a phone."""
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def figures(browser):  # at once, since they may be replaced meanwhile
    return dict(
        browser.execute_script(
            "return [...document.querySelectorAll('#figures div')]"
            ".map((box) => [...box.children].map((child) => child.textContent))"
        )
    )


def new_service(folder, **options):
    committee = ks.Committee({"one": new_model(), "two": "linear-pa"}, "classifier")
    models = {"small": new_model(), "committee": committee}
    return Service([ServedModel(n, m, folder / n) for n, m in models.items()], **options)


def note_change(served, row):
    """Let a model show a change of the stream at a row, with a bad row, so that it is shown."""
    statistics = served.statistics
    statistics.n_events += 1
    statistics.events.append(row)
    served.refuse(["it contains NaN or infinity"])


def test_the_page_lives_through_a_whole_day(browser, tmp_path, interpreted):
    """It loads, follows rows, shows bad rows, changes models, survives a restart, and fails."""
    first = new_service(tmp_path)
    with running(first) as url:
        browser.get(url)
        until(browser, lambda: "Live" in text(browser, "connection"))
        assert "No row has been learned" in text(browser, "empty")
        for start in range(0, 100, 20):
            first.models["small"].learn(rows(start, start + 20)).result(30)
        until(browser, lambda: figures(browser).get("Rows learned") == "100")
        assert not text(browser, "empty")
        picture = browser.find_element(By.CSS_SELECTOR, "figure svg[role=img]")
        assert picture.get_attribute("aria-label").startswith("Error over 100 rows. Now: model")
        assert len(browser.find_elements(By.CSS_SELECTOR, "figure:first-child path.line")) == 6
        first.models["small"].refuse(["it has 2 features, and <b>this</b> model learns from 3"])
        until(browser, lambda: "<b>this</b>" in text(browser, "bad"))
        assert text(browser, "events") == "None so far."
        for row, said in ((40, "row 40"), (90, "rows 40 and 90")):
            note_change(first.models["small"], row)
            until(browser, lambda said=said: text(browser, "events").endswith(f" at {said}."))
        assert text(browser, "events").startswith("2 so far")
        assert len(browser.find_elements(By.CSS_SELECTOR, "figure:first-child line.event")) == 2
        # the keyboard chooses another model
        first.models["committee"].learn(rows(0, 50)).result(30)
        choice = browser.find_element(By.ID, "model")
        choice.send_keys("committee")
        choice.send_keys(Keys.ENTER)
        until(browser, lambda: "CommitteeClassifier" in text(browser, "about"))
        assert Select(choice).first_selected_option.text == "committee"
        until(browser, lambda: "Weights of the members" in text(browser, "charts"))
        assert browser.current_url.endswith("#committee")
        # and so does the address, whatever it says
        for address, class_name in (("small", "KernelC"), ("%", "KernelC"), ("committee", "Comm")):
            browser.execute_script(f"location.hash = '{address}'")
            until(browser, lambda name=class_name: text(browser, "about").startswith(name))
        port = int(url.rsplit(":", 1)[1])
    until(browser, lambda: "trying again" in text(browser, "connection"))
    again = new_service(tmp_path)
    with running(again, port=port):
        until(browser, lambda: "Live" in text(browser, "connection"), 25)
        assert figures(browser)["Rows learned"] == "50"
        again.models["committee"].served.learn = lambda block: 1 / 0
        again.models["committee"].submit(rows(50, 60))
        until(browser, lambda: "ZeroDivisionError" in text(browser, "failure"))
    severe = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert not [entry for entry in severe if "ERR_CONNECTION_REFUSED" not in entry["message"]
                and "ERR_INCOMPLETE" not in entry["message"]]  # fmt: skip


def test_charts_fit_their_places_and_the_page_a_phone(browser, tmp_path, interpreted):
    name = "a-model-whose-name-is-longer-than-a-phone-is-wide"
    served = ServedModel(name, new_model(), tmp_path)
    for start in range(0, 200, 20):
        served.learn(rows(start, start + 20)).result(30)
    with running(Service([served])) as url:
        browser.get(url)
        for width in (1000, 375, 1000):
            set_size(browser, width)
            until(browser, lambda: browser.execute_script(CHARTS_FIT))
            assert browser.execute_script("return document.body.scrollWidth") <= width
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


# There are several, and each is drawn for the width that it has.
CHARTS_FIT = """
    const figures = [...document.querySelectorAll("figure")];
    return figures.length > 2 && figures.every((figure) =>
        figure.clientWidth - 28 === figure.querySelector("svg[role=img]").viewBox.baseVal.width);
"""


# A table of keys, some of which have learned thousands of rows, need not be scrolled sideways.
SECTION_FITS = """
    const section = document.getElementById("keys-section");
    const numbers = ["123,456", "-0.0587", "0.942", "512"];
    section.querySelectorAll("#keys tbody tr").forEach((line) =>
        numbers.forEach((text, k) => { line.cells[k + 1].textContent = text; }));
    return section.clientWidth > 100 && section.scrollWidth <= section.clientWidth;
"""


def test_the_page_shows_the_keys_of_a_fleet(browser, tmp_path, interpreted):
    fleet = ServedModel("fleet", ks.KeyedFleet("pa", "regressor", budget=8), tmp_path / "fleet")
    small = ServedModel("small", new_model(), tmp_path / "small")

    def learn(key, start, stop):
        keys = [key] * (stop - start)
        fleet.learn(Block(X[start:stop], X[start:stop, 0].tolist(), keys=keys)).result(30)

    def lines():  # at once, since lines are replaced all the time
        return browser.execute_script(
            "return [...document.querySelectorAll('#keys tbody tr')]"
            ".map((line) => line.innerText.split(/\\s+/).join(' ').trim())"
        )

    learn("hall <b>", 0, 20)
    with running(Service([fleet, small])) as url:
        browser.get(url)
        until(browser, lambda: figures(browser).get("Keys") == "1")
        until(browser, lambda: lines() and lines()[0].startswith("hall <b> 20"))
        learn(7, 20, 25)
        until(browser, lambda: len(lines()) == 2 and lines()[0].startswith("7 5"))
        assert "Keys" in text(browser, "charts")
        set_size(browser, 375)
        until(browser, lambda: browser.execute_script(SECTION_FITS))
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        # one key's state, by the keyboard, and it stays up to date
        browser.find_element(By.CSS_SELECTOR, "#keys button").send_keys(Keys.ENTER)
        until(browser, lambda: text(browser, "key-title") == "The model of 7")
        assert "Since you look\n0" in text(browser, "key-figures")
        learn(7, 25, 30)
        until(browser, lambda: "Rows learned\n10" in text(browser, "key-figures"))
        assert "Since you look\n5" in text(browser, "key-figures")
        until(browser, lambda: "target of the row before" in text(browser, "key-charts"))
        assert browser.switch_to.active_element.get_attribute("data-key") == "7"
        browser.find_element(By.ID, "key").send_keys("cellar", Keys.ENTER)
        until(browser, lambda: "no model of the key cellar" in text(browser, "key-title"))
        assert not text(browser, "key-charts")
        large = 2**60 + 1  # which JavaScript's numbers do not have
        learn(large, 30, 33)
        until(browser, lambda: lines()[0].startswith(f"{large} 3"))
        browser.find_element(By.CSS_SELECTOR, "#keys button").send_keys(Keys.ENTER)
        until(browser, lambda: text(browser, "key-title") == f"The model of {large}")
        assert "Rows learned\n3" in text(browser, "key-figures")
        Select(browser.find_element(By.ID, "model")).select_by_visible_text("small")
        until(browser, lambda: "Keys" not in figures(browser))
        assert not text(browser, "keys-section")


def test_the_page_fits_a_phone_and_asks_for_the_token(browser, tmp_path, interpreted):
    token = "a-token-of-22-characters"
    service = new_service(tmp_path, token=token)
    service.models["small"].learn(rows(0, 100)).result(30)
    set_size(browser, 360)
    with running(service) as url:
        browser.get(url)
        until(browser, lambda: text(browser, "token-form"))
        assert not text(browser, "main")  # of which nothing is known
        assert not text(browser, "choice")
        assert browser.switch_to.active_element.get_attribute("id") == "token"
        browser.switch_to.active_element.send_keys("another-token-of-mine", Keys.ENTER)
        until(browser, lambda: "not the token" in text(browser, "connection"))
        browser.switch_to.active_element.send_keys(token, Keys.ENTER)
        until(browser, lambda: figures(browser).get("Rows learned") == "100")
        time.sleep(0.2)
        wide = "return document.documentElement.scrollWidth - innerWidth"
        assert browser.execute_script(wide) == 0
